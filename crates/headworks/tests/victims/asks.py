"""Takes the place of a daemon that gives out regions, and answers in its own way."""
import os, socket, sys, time

how = sys.argv[1]
token = os.environ["HEADWORKS_ASK"].split(" ")[1]
daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
daemon.bind("\0headworks-" + token[:16])
daemon.listen(0)
print("stands in", flush=True)
if how == "full":
    others = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(4)]
    for other in others:
        other.setblocking(False)
        try:
            other.connect("\0headworks-" + token[:16])
        except BlockingIOError:
            pass
    time.sleep(60)
while True:
    program, _ = daemon.accept()
    if how == "closes":
        program.close()
        continue
    program.recv(100)
    if how == "garbage":
        program.send(b"x" * 10000)
    elif how == "others":
        files = [os.open("/etc/passwd", os.O_RDONLY) for _ in range(3)]
        socket.send_fds(program, [b"1"], files)
    elif how == "directory":
        socket.send_fds(program, [b"1"], [os.open("/", os.O_RDONLY)])
    elif how == "silent":
        kept = program
        continue
    program.close()
