package landlock

import "golang.org/x/sys/unix"

// architectures are those that a process here can have, its own first.
var architectures = []calls{
	{
		arch: unix.AUDIT_ARCH_AARCH64, execve: unix.SYS_EXECVE, execveat: unix.SYS_EXECVEAT, memfdCreate: unix.SYS_MEMFD_CREATE,
		personality: unix.SYS_PERSONALITY, mmap: []uint32{unix.SYS_MMAP},
	},
	{arch: unix.AUDIT_ARCH_ARM, execve: 11, execveat: 387, memfdCreate: 385, personality: 136, mmap: []uint32{192}},
}
