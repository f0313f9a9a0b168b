package seccomp

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	moby "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/corral-exec/corral/internal/test/doctable"
)

var update = flag.Bool("update-seccomp", false, "write the profiles and docs/reference/seccomp.md anew")

// The profiles are Docker's default less the differences.
func TestGolden(t *testing.T) {
	for arch, native := range map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64} {
		b, err := json.MarshalIndent(made(t, arch, native), "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, '\n')
		file := arch + ".json"
		old, err := os.ReadFile(file)
		if *update {
			err = os.WriteFile(file, b, 0o644)
			old = b
		}
		if err != nil || !bytes.Equal(old, b) {
			t.Errorf("%s is not what the table makes of Docker's profile (go test ./sandbox/seccomp -update-seccomp): %v", file, err)
		}
	}
}

// made is the profile for an architecture.
func made(t *testing.T, arch string, native specs.Arch) *specs.LinuxSeccomp {
	base := moby.DefaultProfile()
	p := &specs.LinuxSeccomp{DefaultAction: base.DefaultAction, DefaultErrnoRet: base.DefaultErrnoRet, Architectures: []specs.Arch{native}}
	always := map[string]bool{}
	for _, s := range base.Syscalls {
		if !applies(s, arch) {
			continue
		}
		if s.Action == specs.ActAllow && len(s.Args) == 0 {
			for _, name := range s.Names {
				always[name] = true
			}
			continue
		}
		p.Syscalls = append(p.Syscalls, s.LinuxSyscall)
	}
	for _, d := range Differences() {
		found := false
		for _, call := range d.Calls {
			found = found || always[call]
			delete(always, call)
			p.Syscalls = slices.DeleteFunc(p.Syscalls, func(s specs.LinuxSyscall) bool {
				same := slices.Contains(s.Names, call)
				if same && len(s.Names) > 1 {
					t.Fatalf("a rule with conditions is for %v together", s.Names)
				}
				found = found || same
				return same
			})
		}
		if !found && arch == "amd64" {
			t.Errorf("Docker's profile has none of %v: it is no difference", d.Calls)
		}
		p.Syscalls = append(p.Syscalls, d.Instead...)
	}
	var names []string
	for name := range always {
		names = append(names, name)
	}
	slices.Sort(names)
	p.Syscalls = slices.Insert(p.Syscalls, 0, specs.LinuxSyscall{Names: names, Action: specs.ActAllow})
	return p
}

// applies reports whether a rule of Docker's is for a container without
// capabilities on an architecture, and on a kernel of this decade.
func applies(s *moby.Syscall, arch string) bool {
	if in := s.Includes; in != nil && (len(in.Caps) > 0 || len(in.Arches) > 0 && !slices.Contains(in.Arches, arch)) {
		return false
	}
	return s.Excludes == nil || !slices.Contains(s.Excludes.Arches, arch)
}

// docs/reference/seccomp.md has the tables.
func TestDocs(t *testing.T) {
	var b strings.Builder
	table := func(title string, list []Difference) {
		fmt.Fprintf(&b, "\n### %s\n\n| calls | what is left | why |\n|---|---|---|\n", title)
		for _, d := range list {
			what := d.What
			if what == "" {
				what = "nothing"
				if title == "Kept on purpose" {
					what = "all"
				}
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.Join(d.Calls, "` `"), what, d.Why)
		}
	}
	table("Stricter than Docker's default", Differences())
	table("Never allowed, as in Docker's default", NeverAllowed())
	table("Kept on purpose", Kept())
	b.WriteString("\n")
	doctable.Table{
		File:  "../../docs/reference/seccomp.md",
		Begin: "<!-- tables: go test ./sandbox/seccomp -update-seccomp -->\n",
		End:   "<!-- end of tables -->\n",
	}.Check(t, b.String(), *update)
}
