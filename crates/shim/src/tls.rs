//! The hooks at the TLS library (OpenSSL 1.1 and 3).
//!
//! Nothing here is linked to it: a program without TLS never calls these, and one with it has the
//! library already. The TLS library's own functions are looked up at the first call.

use crate::{processes, receiving};
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use headworks_hooks::backend::{self, Receipt};
use headworks_hooks::barrier::{Of, guarded, guarded_keeping_errno};
use headworks_hooks::conn::{Conn, Work};
use headworks_hooks::eventloop::{self, LoopConnection};
use headworks_hooks::threads;
use headworks_hooks::tls::{self, Whose};
use headworks_region::thread::keeping_errno;
use libc::{c_int, size_t};

/// Names under which the library may be loaded where a look behind us does not find it. It may be a
/// dependency of a plug-in whose symbols are private.
const LIBRARIES: &[&CStr] = &[c"libssl.so.3", c"libssl.so.1.1"];

/// A function of the TLS library.
struct Function(AtomicPtr<c_void>, &'static CStr);

impl Function {
    const fn new(name: &'static CStr) -> Self {
        Function(AtomicPtr::new(core::ptr::null_mut()), name)
    }

    fn get(&self) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if known.is_null() { self.resolve() } else { known }
    }

    #[cold]
    fn resolve(&self) -> *mut c_void {
        keeping_errno(|| {
            // SAFETY: the name is a C string; RTLD_NEXT asks behind this library.
            let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.1.as_ptr()) };
            for library in LIBRARIES {
                if !found.is_null() {
                    break;
                }
                // SAFETY: both are C strings; nothing is loaded that is not loaded already. The
                // handle is kept, so what it leads to stays.
                found = unsafe {
                    let handle =
                        libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
                    if handle.is_null() { handle } else { libc::dlsym(handle, self.1.as_ptr()) }
                };
            }
            self.0.store(found, Ordering::Relaxed);
            found
        })
    }
}

/// An `SSL`, of which we know nothing.
type Ssl = *mut c_void;

/// Declares a caller of a function of the TLS library. Without the library it fails. That cannot
/// happen, since the program has called the library.
macro_rules! function {
    ($name:ident = $symbol:literal; ($($arg:ident: $type:ty),*)) => {
        /// # Safety
        /// As the library's function.
        unsafe fn $name($($arg: $type),*) -> c_int {
            static FUNCTION: Function = Function::new($symbol);
            let function = FUNCTION.get();
            if function.is_null() {
                return -1;
            }
            // SAFETY: the symbol of this name has this type; the rest is the caller's duty.
            unsafe {
                core::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C-unwind" fn($($type),*) -> c_int,
                >(function)($($arg),*)
            }
        }
    };
}

function!(real_get_fd = c"SSL_get_fd"; (ssl: Ssl));
function!(real_set_fd = c"SSL_set_fd"; (ssl: Ssl, fd: c_int));
function!(real_pending = c"SSL_pending"; (ssl: Ssl));
function!(real_accept = c"SSL_accept"; (ssl: Ssl));
function!(real_do_handshake = c"SSL_do_handshake"; (ssl: Ssl));
function!(real_read = c"SSL_read"; (ssl: Ssl, buffer: *mut c_void, len: c_int));
function!(real_read_ex = c"SSL_read_ex"; (ssl: Ssl, buffer: *mut c_void, len: size_t, count: *mut size_t));
function!(real_write = c"SSL_write"; (ssl: Ssl, buffer: *const c_void, len: c_int));
function!(real_write_ex = c"SSL_write_ex"; (ssl: Ssl, buffer: *const c_void, len: size_t, count: *mut size_t));

/// Whose conversation it is, if it is one that is followed.
///
/// # Safety
/// `ssl` is one, as for every function below.
unsafe fn whose(ssl: Ssl) -> Option<Whose> {
    headworks_hooks::process::region()?;
    // SAFETY: the caller's duty. The library asks the socket's BIO, which touches nothing else.
    match unsafe { real_get_fd(ssl) } {
        fd @ 0.. => tls::whose(fd),
        _ => tls::whose_object(ssl),
    }
}

fn of(whose: Whose) -> Of {
    match whose {
        Whose::Thread(conn) => Of::Thread(conn),
        Whose::Loop(connection) => Of::Loop(connection),
        Whose::Backend => Of::Process,
    }
}

fn begins(whose: Option<Whose>) {
    if let Some(whose) = whose {
        guarded_keeping_errno(of(whose), || tls::begins(whose));
    }
}

/// A connection's handshake has come to this result.
fn handshaken(whose: Option<Whose>, done: c_int) {
    if done == 1
        && let Some(Whose::Loop(connection)) = whose
    {
        guarded_keeping_errno(Of::Loop(connection), || eventloop::tls_established(connection));
    }
}

/// # Safety
/// As the TLS library's function; so for all below.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn SSL_set_fd(ssl: Ssl, fd: c_int) -> c_int {
    // SAFETY: the arguments are the caller's.
    let done = unsafe { real_set_fd(ssl, fd) };
    if done == 1 {
        begins(tls::whose(fd));
    }
    done
}

/// # Safety
/// As the TLS library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn SSL_accept(ssl: Ssl) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let mut found = whose(ssl);
        if found.is_none() && real_get_fd(ssl) < 0 {
            guarded_keeping_errno(Of::Process, || tls::accepts_by_object(ssl));
            found = whose(ssl);
        }
        begins(found);
        let done = real_accept(ssl);
        handshaken(found, done);
        done
    }
}

/// # Safety
/// As the TLS library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn SSL_do_handshake(ssl: Ssl) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let whose = whose(ssl);
        begins(whose);
        let done = real_do_handshake(ssl);
        handshaken(whose, done);
        done
    }
}

/// # Safety
/// As the TLS library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn SSL_read(ssl: Ssl, buffer: *mut c_void, len: c_int) -> c_int {
    let room = usize::try_from(len).unwrap_or(0);
    // SAFETY: the arguments are the caller's.
    unsafe {
        match whose(ssl) {
            None => real_read(ssl, buffer, len),
            Some(Whose::Thread(conn)) => {
                before_read(conn, ssl);
                let count = real_read(ssl, buffer, len);
                after_read(conn, buffer, usize::try_from(count).unwrap_or(0));
                count
            }
            Some(Whose::Loop(connection)) => {
                begins(Some(Whose::Loop(connection)));
                let count = real_read(ssl, buffer, len);
                loop_has_read(connection, buffer, usize::try_from(count).unwrap_or(0));
                count
            }
            // Its caller has an `int` for the length.
            Some(Whose::Backend) => match backend_reads_before(buffer, room) {
                Before::Interrupted => processes::interrupted() as c_int,
                Before::Delivered(count) => count as c_int,
                Before::Go => {
                    let count = real_read(ssl, buffer, len);
                    match backend_reads_after(buffer, usize::try_from(count).unwrap_or(0)) {
                        Receipt::Go => count,
                        Receipt::Later => processes::interrupted() as c_int,
                    }
                }
            },
        }
    }
}

/// # Safety
/// As the TLS library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn SSL_read_ex(
    ssl: Ssl,
    buffer: *mut c_void,
    len: size_t,
    count: *mut size_t,
) -> c_int {
    // SAFETY: the arguments are the caller's; after a success the library has written `count`.
    unsafe {
        match whose(ssl) {
            Some(Whose::Thread(conn)) => {
                before_read(conn, ssl);
                let done = real_read_ex(ssl, buffer, len, count);
                after_read(conn, buffer, if done == 1 { *count } else { 0 });
                done
            }
            Some(Whose::Loop(connection)) => {
                begins(Some(Whose::Loop(connection)));
                let done = real_read_ex(ssl, buffer, len, count);
                loop_has_read(connection, buffer, if done == 1 { *count } else { 0 });
                done
            }
            Some(Whose::Backend) => match backend_reads_before(buffer, len) {
                Before::Interrupted => {
                    processes::interrupted();
                    0
                }
                Before::Delivered(delivered) => {
                    *count = delivered;
                    1
                }
                Before::Go => {
                    let done = real_read_ex(ssl, buffer, len, count);
                    match backend_reads_after(buffer, if done == 1 { *count } else { 0 }) {
                        Receipt::Go => done,
                        Receipt::Later => {
                            *count = 0;
                            processes::interrupted();
                            0
                        }
                    }
                }
            },
            None => real_read_ex(ssl, buffer, len, count),
        }
    }
}

/// # Safety
/// As the TLS library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn SSL_write(ssl: Ssl, buffer: *const c_void, len: c_int) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe {
        let count = real_write(ssl, buffer, len);
        if count > 0 {
            written(whose(ssl), buffer, count as usize);
        }
        count
    }
}

/// # Safety
/// As the TLS library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn SSL_write_ex(
    ssl: Ssl,
    buffer: *const c_void,
    len: size_t,
    count: *mut size_t,
) -> c_int {
    // SAFETY: the arguments are the caller's; after a success the library has written `count`.
    unsafe {
        let done = real_write_ex(ssl, buffer, len, count);
        if done == 1 {
            written(whose(ssl), buffer, *count);
        }
        done
    }
}

/// # Safety
/// `ssl` is one.
unsafe fn before_read(conn: &'static Conn, ssl: Ssl) {
    begins(Some(Whose::Thread(conn)));
    if conn.work() != Work::None {
        guarded(Of::Thread(conn), || threads::about_to_receive(conn));
    }
    if threads::may_block(conn) {
        // SAFETY: the caller's duty; both only look.
        let (pending, fd) = unsafe { (real_pending(ssl), real_get_fd(ssl)) };
        // What the library does not have yet it waits for, if the socket does.
        if pending <= 0 {
            receiving::about_to_block(conn, fd);
        }
    }
}

/// # Safety
/// `buffer` holds `count` bytes.
unsafe fn after_read(conn: &'static Conn, buffer: *const c_void, count: usize) {
    if count > 0 {
        // SAFETY: the caller's duty.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        guarded(Of::Thread(conn), || threads::received_inside_tls(conn, bytes));
    } else if conn.anticipating() {
        guarded_keeping_errno(Of::Thread(conn), || threads::found_nothing(conn));
    }
}

/// # Safety
/// `buffer` holds `count` bytes.
unsafe fn loop_has_read(connection: &'static LoopConnection, buffer: *const c_void, count: usize) {
    if count > 0 {
        // SAFETY: the caller's duty.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        // A server may look at it after a success, too.
        guarded_keeping_errno(Of::Loop(connection), || {
            eventloop::received_inside_tls(connection, bytes)
        });
    }
}

/// What a backend has to do before it reads from the TLS library.
enum Before {
    Go,
    Interrupted,
    Delivered(usize),
}

/// # Safety
/// `buffer` has room for `len` bytes.
unsafe fn backend_reads_before(buffer: *mut c_void, len: usize) -> Before {
    begins(Some(Whose::Backend));
    if !backend::in_tls() {
        return Before::Go;
    }
    if processes::about_to_receive() == Receipt::Later {
        return Before::Interrupted;
    }
    if len == 0 || buffer.is_null() {
        return Before::Go;
    }
    // SAFETY: the caller's duty.
    let room = unsafe { core::slice::from_raw_parts_mut(buffer.cast::<u8>(), len) };
    backend::deliver(room).map_or(Before::Go, Before::Delivered)
}

/// # Safety
/// `buffer` holds `count` bytes.
unsafe fn backend_reads_after(buffer: *const c_void, count: usize) -> Receipt {
    let mut receipt = Receipt::Go;
    if !backend::in_tls() {
        return receipt;
    }
    if count > 0 {
        // SAFETY: the caller's duty.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        guarded(Of::Process, || receipt = backend::received(bytes));
    } else if backend::anticipating() {
        guarded_keeping_errno(Of::Process, backend::found_nothing);
    }
    receipt
}

/// # Safety
/// `buffer` holds `count` bytes.
unsafe fn written(whose: Option<Whose>, buffer: *const c_void, count: usize) {
    // SAFETY: the caller's duty.
    let bytes = || unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
    match whose {
        Some(Whose::Thread(conn)) => {
            guarded(Of::Thread(conn), || threads::sent_inside_tls(conn, bytes()))
        }
        Some(Whose::Loop(connection)) => {
            guarded_keeping_errno(Of::Loop(connection), || {
                eventloop::sent_inside_tls(connection, bytes())
            });
        }
        Some(Whose::Backend) if backend::in_tls() => {
            guarded(Of::Process, || backend::sent(bytes()))
        }
        _ => {}
    }
}
