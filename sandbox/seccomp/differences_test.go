package seccomp

import "github.com/opencontainers/runtime-spec/specs-go"

// A Difference is where the profile is stricter than Docker's.
type Difference struct {
	Calls []string
	// Instead are the rules that apply to the calls; without any they fail
	// with EPERM.
	Instead []specs.LinuxSyscall
	What    string // of the calls is left, for people; empty: nothing
	Why     string
}

// Families of sockets, protocols of netlink, and personalities, by the kernel's
// headers. They are the same on every architecture.
const (
	afUnix, afINET, afNetlink, afINET6 = 1, 2, 16, 10

	netlinkRoute, netlinkSockDiag, netlinkAudit = 0, 4, 9
	noProtocol                                  = 93 // EPROTONOSUPPORT

	perLinux, perQuery = 0, 0xffffffff
)

// Differences lists where the profile is stricter than Docker's default for a
// container without capabilities. What that does not have either is in
// [NeverAllowed].
func Differences() []Difference {
	return []Difference{
		{
			Calls: []string{"socket"},
			Instead: []specs.LinuxSyscall{
				allow("socket", equal(0, afUnix)), allow("socket", equal(0, afINET)), allow("socket", equal(0, afINET6)),
				allow("socket", equal(0, afNetlink), equal(2, netlinkRoute)), allow("socket", equal(0, afNetlink), equal(2, netlinkSockDiag)),
				refuse("socket", noProtocol, equal(0, afNetlink), equal(2, netlinkAudit)),
			},
			What: "AF_UNIX, AF_INET, AF_INET6; AF_NETLINK for NETLINK_ROUTE and NETLINK_SOCK_DIAG. NETLINK_AUDIT fails with EPROTONOSUPPORT, by which sudo and PAM know that there is no audit",
			Why:  "Docker allows every family but AF_VSOCK and AF_ALG. The rest (CAN, TIPC, RDS, SMC, Bluetooth and more) loads modules that few people review, and that privilege escalations have come from for years. Programs of agents use these four.",
		},
		{
			Calls:   []string{"personality"},
			Instead: []specs.LinuxSyscall{allow("personality", equal(0, perLinux)), allow("personality", equal(0, perQuery))},
			What:    "to ask, and to stay Linux",
			Why:     "The other two that Docker allows are for programs of 32 bits and for ones that need Linux to call itself 2.6.",
		},
		{Calls: []string{"vmsplice"}, Why: "It maps a program's pages into a pipe: the means of several privilege escalations, used by hardly any program. splice and tee stay."},
		{Calls: []string{"modify_ldt"}, Why: "It is for 16-bit segments (Wine, DOSEMU), and code of the kernel that is hard to get right."},
		{Calls: []string{"remap_file_pages"}, Why: "Linux has only emulated it since 4.0; programs use mmap."},
		{Calls: []string{"name_to_handle_at"}, Why: "It is half of open_by_handle_at, by which containers have been left. That one needs a capability; this one has no use without it."},
		{Calls: []string{"fanotify_mark"}, Why: "fanotify_init, without which it has no use, needs a capability."},
		{Calls: []string{"memfd_secret"}, Why: "Memory that nobody else can look into, not even the kernel, is of no use to a sandbox's owner. memfd_create stays."},
		{Calls: []string{"process_mrelease"}, Why: "It is for programs that decide what dies when memory runs out. Here the kernel decides."},
		{Calls: []string{"adjtimex", "clock_adjtime", "clock_adjtime64"}, Why: "Clocks are the machine's."},
		{Calls: []string{"epoll_ctl_old", "epoll_wait_old"}, Why: "Linux never had them."},
		{
			Calls: []string{"socketcall", "ipc", "get_thread_area", "set_thread_area"},
			Why:   "They are of programs of 32 bits, which do not run: see below.",
		},
	}
}

// NeverAllowed are calls that are looked for in the profile by a test: Docker's
// default does not allow them without capabilities, and neither does this one.
// Each has been a way out of a container, or is one to the whole machine.
func NeverAllowed() []Difference {
	return []Difference{
		{Calls: []string{"add_key", "keyctl", "request_key"}, Why: "Keyrings of the kernel are not divided among containers."},
		{Calls: []string{"bpf", "perf_event_open", "userfaultfd"}, Why: "They are tools of most privilege escalations of the last years."},
		{Calls: []string{"io_uring_setup", "io_uring_enter", "io_uring_register"}, Why: "They do what other calls are refused for, unseen by seccomp, and have had more holes than anything else of late."},
		{Calls: []string{"unshare", "setns", "clone3"}, Why: "Namespaces give the capabilities that were dropped. clone3 fails with ENOSYS, so that libraries use clone, whose flags a filter can see."},
		{Calls: []string{"mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsmount", "fsconfig", "fspick", "mount_setattr", "chroot"}, Why: "What is mounted in a sandbox is what was put there."},
		{Calls: []string{"open_by_handle_at", "fanotify_init"}, Why: "They reach files by number, past every path."},
		{Calls: []string{"kexec_load", "kexec_file_load", "reboot", "init_module", "finit_module", "delete_module", "swapon", "swapoff", "acct", "quotactl", "syslog", "iopl", "ioperm", "settimeofday", "clock_settime", "sethostname", "setdomainname", "vhangup", "lookup_dcookie", "nfsservctl"}, Why: "They are an administrator's."},
		{Calls: []string{"kcmp", "pidfd_getfd", "process_madvise"}, Why: "They reach into other processes, past what ptrace is checked for."},
		{Calls: []string{"mbind", "set_mempolicy", "get_mempolicy", "migrate_pages", "move_pages"}, Why: "Where memory lies is the machine's to say; programs do without."},
	}
}

// Kept are calls that other profiles leave out, and this one does not.
func Kept() []Difference {
	return []Difference{
		{Calls: []string{"ptrace", "process_vm_readv", "process_vm_writev"}, Why: "Agents debug (gdb, strace, delve). They reach processes of the same user in the same sandbox alone, and not the warden, which cannot be traced."},
		{Calls: []string{"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}, Why: "Programs make themselves a stricter box of their own (browsers, language servers)."},
		{Calls: []string{"mknod", "mknodat"}, Why: "mkfifo uses them; devices need a capability."},
	}
}

func allow(name string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: args}
}

// refuse has a call fail with an error of its own, in place of EPERM.
func refuse(name string, errno uint, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{name}, Action: specs.ActErrno, ErrnoRet: &errno, Args: args}
}

func equal(index uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: value, Op: specs.OpEqualTo}
}
