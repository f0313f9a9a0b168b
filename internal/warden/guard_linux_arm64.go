package warden

import "golang.org/x/sys/unix"

var guarded = []calls{
	{unix.AUDIT_ARCH_AARCH64, unix.SYS_PRLIMIT64, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET,
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, 0,
		unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_FCNTL},
	// arch/arm/tools/syscall.tbl
	{unix.AUDIT_ARCH_ARM, 369, 97, 314, 156, 154, 380, 0, 37, 238, 268, 178, 363, 221},
}
