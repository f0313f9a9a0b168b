package warden

import "golang.org/x/sys/unix"

var guarded = []calls{
	{unix.AUDIT_ARCH_AARCH64, unix.SYS_PRLIMIT64, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET,
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, 0},
	// arch/arm/tools/syscall.tbl
	{unix.AUDIT_ARCH_ARM, 369, 97, 314, 156, 154, 380, 0},
}
