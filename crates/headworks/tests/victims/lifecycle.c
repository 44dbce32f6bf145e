/* Uses the hooked functions at every time of a program's life, with `early.c` as a library. */
#include <stdlib.h>

void use_hooks(const char *when);

__attribute__((constructor(101))) static void before(void) { use_hooks("constructor"); }
__attribute__((destructor(101))) static void after(void) { use_hooks("destructor"); }
static void at_exit(void) { use_hooks("atexit"); }

static void first_of_all(void) { use_hooks("preinit"); }
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = first_of_all;

int main(void) {
    atexit(at_exit);
    use_hooks("main");
    return 0;
}
