package warden

import "golang.org/x/sys/unix"

// x32Bit is in the numbers of the x32 calls, which are those of amd64 else.
const x32Bit = 0x40000000

var guarded = []calls{
	{unix.AUDIT_ARCH_X86_64, unix.SYS_PRLIMIT64, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET,
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, x32Bit,
		unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_FCNTL},
	// arch/x86/entry/syscalls/syscall_32.tbl
	{unix.AUDIT_ARCH_I386, 340, 97, 289, 156, 154, 351, 0, 37, 238, 270, 178, 335, 221},
}
