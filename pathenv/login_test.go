package pathenv

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corral-exec/corral"
)

func TestLoginProbeAsksOnce(t *testing.T) {
	var probes atomic.Int32
	p := NewLoginProbe(ProbeOptions{Run: func(context.Context, string, []string, []string) ([]byte, error) {
		probes.Add(1)
		return []byte("hello\x00PATH=/a:/b\x00\x00"), nil
	}})
	defer p.Close()
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if path, err := p.PATH(t.Context()); path != "/a:/b" || err != nil {
				t.Errorf("PATH = %q, %v", path, err)
			}
		})
	}
	callers.Wait()
	if n := probes.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
}

func TestLoginProbeOutlivesAnImpatientCaller(t *testing.T) {
	answer := make(chan struct{})
	p := NewLoginProbe(ProbeOptions{Run: func(context.Context, string, []string, []string) ([]byte, error) {
		<-answer
		return []byte("PATH=/a\x00"), nil
	}})
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.PATH(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("PATH with an ended context = %v, want Canceled and ErrUnavailable", err)
	}
	close(answer)
	if path, err := p.PATH(t.Context()); path != "/a" || err != nil {
		t.Errorf("PATH afterwards = %q, %v", path, err)
	}
}

func TestLoginProbeClosedUnasked(t *testing.T) {
	p := NewLoginProbe(ProbeOptions{Run: func(ctx context.Context, _ string, _, _ []string) ([]byte, error) { return nil, ctx.Err() }})
	p.Close()
	p.Close()
	if _, err := p.PATH(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("PATH after Close = %v, want Canceled", err)
	}
}

func TestLoginProbeShell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shells")
	writeFile(t, file, "# login shells\n/bin/bash\n  /usr/bin/zsh  \n/opt/../bin/odd\nfish\n", 0o600)
	tests := []struct{ shell, file, want string }{
		{"/bin/bash", file, "/bin/bash"},
		{"/usr/bin/zsh", file, "/usr/bin/zsh"},
		{"", file, "/bin/sh"},
		{"fish", file, "/bin/sh"},
		{"/opt/../bin/odd", file, "/bin/sh"},
		{"/bin//bash", file, "/bin/sh"},
		{"/tmp/evil", file, "/bin/sh"},
		{"# login shells", file, "/bin/sh"},
		{"/bin/bash", file + ".missing", "/bin/sh"},
	}
	for _, test := range tests {
		p := NewLoginProbe(ProbeOptions{Environ: []string{"SHELL=/overridden", "SHELL=" + test.shell}, Shells: test.file})
		if got := p.shell(); got != test.want {
			t.Errorf("SHELL=%s: %s, want %s", test.shell, got, test.want)
		}
	}
}

func TestLoginProbeEnvironment(t *testing.T) {
	p := NewLoginProbe(ProbeOptions{
		Home:    "/home/account",
		Environ: []string{"HOME=/tmp/evil", "ZDOTDIR=/tmp/evil", "BASH_ENV=/tmp/evil", "LD_PRELOAD=/x.so", "SHELL=/bin/bash", "MY_TOKEN=t", "LANG=C", "PATH=/bin"},
	})
	want := []string{"HOME=/home/account", "LANG=C", "PATH=/bin"}
	if got := p.environ(); !slices.Equal(got, want) {
		t.Errorf("the shell is given %q, want %q", got, want)
	}
}

func TestParseEnvBlock(t *testing.T) {
	tests := []struct {
		block string
		want  map[string]string
	}{
		{"", nil},
		{"A=1\x00B=\x00", map[string]string{"A": "1", "B": ""}},
		{"A=1", nil}, // cut off
		{"A=1\x00PATH=/cut/o", map[string]string{"A": "1"}},
		{"Welcome!\n\x00A=1\x00\x00", map[string]string{"A": "1"}},
		{"A=line\nline=2\x00", map[string]string{"A": "line\nline=2"}},
		{"=x\x00\x00A\x00", nil},
		{"A=1\x00A=2\x00", map[string]string{"A": "2"}},
	}
	for _, test := range tests {
		got := parseEnvBlock([]byte(test.block))
		if len(got) != len(test.want) {
			t.Errorf("parseEnvBlock(%q) = %v, want %v", test.block, got, test.want)
		}
		for name, value := range test.want {
			if got[name] != value {
				t.Errorf("parseEnvBlock(%q)[%s] = %q, want %q", test.block, name, got[name], value)
			}
		}
	}
}

func FuzzParseEnvBlock(f *testing.F) {
	for _, seed := range []string{"", "PATH=/bin\x00", "hello\x00A=1\x00PATH=/a:/b\x00\x00", "=\x00==\x00A=\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		env := parseEnvBlock(block)
		var again strings.Builder
		for name, value := range env {
			if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
				t.Fatalf("parseEnvBlock(%q) has %q=%q", block, name, value)
			}
			if !strings.Contains(string(block), name+"="+value+"\x00") {
				t.Fatalf("%q=%q is not in %q", name, value, block)
			}
			again.WriteString(name + "=" + value + "\x00")
		}
		back := parseEnvBlock([]byte(again.String()))
		if len(back) != len(env) {
			t.Fatalf("printed and read again: %v, want %v", back, env)
		}
	})
}
