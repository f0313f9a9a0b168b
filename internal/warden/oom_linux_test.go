package warden

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestParseOOM(t *testing.T) {
	for text, want := range map[string]int{
		"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n":                3,  // memory.oom_control
		"low 0\nhigh 0\nmax 7\noom 2\noom_kill 12\noom_group_kill 0\n": 12, // memory.events
		"oom_kill 5":           5,
		"oom_kill_disable 1\n": -1,
		"oom_kill x\n":         -1,
		"":                     -1,
	} {
		n, ok := parseOOM([]byte(text))
		if ok != (want >= 0) || ok && n != uint64(want) {
			t.Errorf("%q: %d, %v; want %d", text, n, ok, want)
		}
	}
}

func TestCgroupPaths(t *testing.T) {
	for text, want := range map[string][2]string{
		"0::/user.slice/a b:c\n":                                {"/user.slice/a b:c", "/"},
		"9:name=systemd:/x\n8:hugetlb,memory:/docker/1\n0::/\n": {"/", "/docker/1"},
		"8:memoryx:/a\n":                                        {"/", "/"},
		"4:memory:/a/../b\nrubbish\n:":                          {"/", "/"},
		"":                                                      {"/", "/"},
	} {
		v2, v1 := cgroupPaths([]byte(text))
		if v2 != want[0] || v1 != want[1] {
			t.Errorf("%q: %q and %q, want %q", text, v2, v1, want)
		}
	}
}

// Whose end is said to be for want of memory.
func TestKilledForMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "count")
	count := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	count("")
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const kill, term, says137, says9 = syscall.WaitStatus(9), syscall.WaitStatus(15), syscall.WaitStatus(137 << 8), syscall.WaitStatus(9 << 8)
	for _, tt := range []struct {
		name   string
		p      proc
		status syscall.WaitStatus
		count  string
		known  uint64
		want   bool
	}{
		{"it", proc{oomBefore: 1, oomCounted: true}, kill, "oom_kill 2", 0, true},
		{"a shell", proc{oomBefore: 1, oomCounted: true}, says137, "oom_kill 2", 0, true},
		{"the first", proc{oomCounted: true}, kill, "oom_kill 1", 0, true},
		{"no kill since", proc{oomBefore: 2, oomCounted: true}, kill, "oom_kill 2", 0, false},
		{"another's kill", proc{oomBefore: 1, oomCounted: true}, kill, "oom_kill 2", 2, false},
		{"one of two", proc{oomBefore: 1, oomCounted: true}, kill, "oom_kill 3", 2, true},
		{"another signal", proc{oomCounted: true}, term, "oom_kill 2", 0, false},
		{"exit code 9", proc{oomCounted: true}, says9, "oom_kill 2", 0, false},
		{"asked for", proc{oomCounted: true, killed: true}, kill, "oom_kill 2", 0, false},
		{"timed out", proc{oomCounted: true, timedOut: true}, kill, "oom_kill 2", 0, false},
		{"not counted before", proc{}, kill, "oom_kill 2", 0, false},
		{"not counted", proc{oomCounted: true}, kill, "rubbish", 0, false},
	} {
		count(tt.count)
		s := &Supervisor{oom: oomCounter{f, int(f.Fd())}, oomKnown: tt.known}
		if got := s.killedForMemory(&tt.p, tt.status); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
