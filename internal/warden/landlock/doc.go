// Package landlock has the kernel keep a command to an execution domain (package
// confine). Linux alone has what it takes:
//
//   - Landlock (5.13) refuses to execute and to write what the domain does not
//     name. The process restricts itself before it executes its program (package
//     spawn): no other process and no thread is made for that.
//   - A loader (ld.so) has to be executable, and runs whatever it is given as an
//     argument. A seccomp filter has the kernel ask (5.0) before a process maps
//     code of a file. If the process's /proc/PID/exe is a loader, the answer is no.
//     One thread has the filter, and makes the processes, which inherit it: to
//     install it for each would take longer than all the rest.
//     The kernel asks about each execve too, except the first one. So this package
//     knows the programs that Landlock refuses. Before the second execve every
//     process of a session runs the first program, which is looked at once.
//
// Who asked waits for the answer of this process. Without it, after it was killed,
// commands in a domain can start no program any more; they fail closed.
//
// What it does not cover: files that a command reads, sockets, signals, what it
// asks other processes to do, and the rights, times and owners of files.
package landlock
