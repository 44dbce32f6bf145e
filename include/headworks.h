/* What a program may tell Headworks. All of it is optional. */
#ifndef HEADWORKS_H
#define HEADWORKS_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Clients wait for what the calling thread does from now on (not zero), or nobody does (zero). For
 * `headworks run --io rcp`. A wrong call costs performance only.
 *
 * The function is in libheadworks.so, which `headworks run` preloads. Declared weak, it is null
 * without that: if (headworks_foreground) headworks_foreground(1);
 */
extern void headworks_foreground(int foreground) __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
