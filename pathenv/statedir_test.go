package pathenv

import (
	"os"
	"path/filepath"
	"testing"
)

func TestStateDir(t *testing.T) {
	alone := "/home/me/.local/state/x"
	if os.Geteuid() == 0 {
		alone = "/var/lib/x"
	}
	tests := map[string]struct {
		env  map[string]string
		want string
	}{
		"XDG":          {map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/home/me"}, "/s/x"},
		"relative XDG": {map[string]string{"XDG_STATE_HOME": "s", "HOME": "/home/me"}, alone},
		"home":         {map[string]string{"HOME": "/home/me"}, alone},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := StateDir(func(k string) string { return tt.env[k] }, "x")
			if got != filepath.FromSlash(tt.want) {
				t.Errorf("StateDir = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestProgramName(t *testing.T) {
	for _, tt := range [][2]string{
		{"/usr/bin/agent", "agent"}, {"./my agent", "my_agent"}, {"..", "program"}, {"", "program"}, {"a/b.test", "b.test"},
	} {
		if got := programName([]string{tt[0]}); got != tt[1] {
			t.Errorf("programName(%q) = %q, want %q", tt[0], got, tt[1])
		}
	}
	if got := programName(nil); got != "program" {
		t.Errorf("programName() = %q", got)
	}
}
