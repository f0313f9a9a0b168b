// Package landlock has the kernel keep a command to an execution domain (package
// confine). Linux alone has what it takes:
//
//   - Landlock (5.13) refuses to execute and to write what the domain does not
//     name. The thread that forks restricts itself, and ends: no process beside
//     the command's own is made. The next thread is ready, with its filter, before
//     it is needed.
//   - A loader (ld.so) has to be executable, and runs whatever it is given as an
//     argument. A seccomp filter has the kernel ask (5.0) before a process maps
//     code of a file; one of which /proc/PID/exe is the loader may not. The filter
//     asks about every execve too, only to know what Landlock refuses.
//
// Who asked waits for the answer of this process. Without it, after it was killed,
// commands in a domain can start no program any more; they fail closed.
//
// What it does not cover: files that a command reads, sockets, signals, what it
// asks other processes to do, and the rights, times and owners of files.
package landlock
