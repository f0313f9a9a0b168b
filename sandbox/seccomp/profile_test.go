package seccomp

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProfiles(t *testing.T) {
	for arch, want := range map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64} {
		p := Profile(arch)
		if p.DefaultAction != specs.ActErrno || p.DefaultErrnoRet == nil || *p.DefaultErrnoRet != 1 || !slices.Equal(p.Architectures, []specs.Arch{want}) {
			t.Errorf("%s: %+v", arch, p)
		}
		for _, d := range NeverAllowed() {
			for _, call := range d.Calls {
				if allowed(p, call) {
					t.Errorf("%s: %s is allowed", arch, call)
				}
			}
		}
		for _, d := range Differences() {
			for _, call := range d.Calls {
				if got := allowed(p, call); got != (d.Instead != nil) {
					t.Errorf("%s: %s allowed: %v", arch, call, got)
				}
			}
		}
		for _, d := range Kept() {
			for _, call := range d.Calls {
				if !allowed(p, call) && (arch == "amd64" || !slices.Contains([]string{"mknod"}, call)) {
					t.Errorf("%s: %s is not allowed", arch, call)
				}
			}
		}
		for _, call := range []string{"read", "execve", "clone", "futex", "epoll_pwait", "openat", "statx", "rseq", "getrandom"} {
			if !allowed(p, call) {
				t.Errorf("%s: %s is not allowed", arch, call)
			}
		}
	}
	if p := Profile("riscv64"); p != nil {
		t.Errorf("%+v", p)
	}
}

// allowed reports whether a call is, under whatever conditions.
func allowed(p *specs.LinuxSeccomp, call string) bool {
	return slices.ContainsFunc(p.Syscalls, func(s specs.LinuxSyscall) bool {
		return s.Action != specs.ActErrno && slices.Contains(s.Names, call)
	})
}

// No process can be made in another namespace: clone is allowed with certain flags only,
// and no flag of a namespace is among them.
func TestClone(t *testing.T) {
	const namespaces = 0x02000000 | 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
	for _, arch := range []string{"amd64", "arm64"} {
		for _, s := range Profile(arch).Syscalls {
			if !slices.Contains(s.Names, "clone") {
				continue
			}
			if len(s.Args) != 1 || s.Args[0].Index != 0 || s.Args[0].Op != specs.OpMaskedEqual || s.Args[0].Value&namespaces != namespaces || s.Args[0].ValueTwo != 0 {
				t.Errorf("%s: %+v", arch, s)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want error
	}{
		{`{"defaultAction":"SCMP_ACT_ERRNO","architectures":["SCMP_ARCH_X86_64"],"syscalls":[{"names":["read"],"action":"SCMP_ACT_ALLOW"}]}`, nil},
		{`{"defaultAction":"SCMP_ACT_KILL_PROCESS"}`, nil},
		{`{"defaultAction":"SCMP_ACT_ALLOW"}`, corral.ErrDenied},
		{`{"defaultAction":"SCMP_ACT_LOG"}`, corral.ErrDenied},
		{`{}`, corral.ErrDenied},
		{`{"defaultAction":"SCMP_ACT_ERRNO","listenerPath":"/run/x.sock"}`, corral.ErrDenied},
		{`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["mount"],"action":"SCMP_ACT_NOTIFY"}]}`, corral.ErrDenied},
		{`{"defaultAction":"SCMP_ACT_ERRNO","archMap":[]}`, corral.ErrInvalid},
		{`{"defaultAction":"SCMP_ACT_ERRNO"} x`, corral.ErrInvalid},
		{`[]`, corral.ErrInvalid},
		{``, corral.ErrInvalid},
		{strings.Repeat(" ", MaxProfile+1), corral.ErrInvalid},
	} {
		p, err := Parse(strings.NewReader(tt.text))
		if !errors.Is(err, tt.want) || (p == nil) != (tt.want != nil) {
			t.Errorf("%.80s: %v, want %v", tt.text, err, tt.want)
		}
	}
}
