//go:build e2e

package owners_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/enginetest"
	"github.com/corral-exec/corral/internal/testdir"
	"github.com/corral-exec/corral/internal/wardenbin/wardenbintest"
)

// corral in a container, with the engine's socket: its directory /data is
// another one on the engine's machine, and what it mounts is that.
func TestNested(t *testing.T) {
	engine := enginetest.New(t)
	info, err := engine.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, work := testdir.New(t), testdir.New(t)
	program := filepath.Join(dir, "corral")
	build := exec.Command("go", "build", "-o", program, "github.com/corral-exec/corral/cmd/corral")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.MkdirAll(filepath.Join(work, "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(work, "w"), 1000, 1000); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		socket := strings.TrimPrefix(info.Address, "unix://")
		args = append([]string{"run", "--rm", "--network=none", "-v", socket + ":/engine.sock", "-v", program + ":/corral:ro", "-v", wardenbintest.Build(t) + ":/warden:ro",
			"-v", work + ":/data", "-v", "/etc:/settings:ro", "-e", "DOCKER_HOST=unix:///engine.sock", "-e", "CORRAL_WARDEN=/warden", "-e", "HOME=/root",
			images.Busybox, "/corral", "exec", "--local", "--host", "sandbox", "--ephemeral", "--image", images.Busybox}, args...)
		cmd := exec.Command("docker", args...)
		if info.Address != "unix:///var/run/docker.sock" {
			cmd.Env = append(os.Environ(), "DOCKER_HOST="+info.Address)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("--workspace", "/data/w", "--workspace-access", "rw", "echo from the sandbox > f; id -u; pwd")
	if err != nil || !strings.Contains(out, "1000\n/workspace\n") {
		t.Fatalf("%v: %s", err, out)
	}
	f := filepath.Join(work, "w", "f")
	text, err := os.ReadFile(f)
	if err != nil || string(text) != "from the sandbox\n" {
		t.Fatalf("%q, %v: %s", text, err, out)
	}
	if st, err := os.Stat(f); err != nil || st.Sys().(*syscall.Stat_t).Uid != 1000 {
		t.Errorf("%v, %v", st, err)
	}
	if out, err := run("--workspace-access", "ro", "--workspace", "/data/w", "cat f; echo x > f"); err == nil || !strings.Contains(out, "from the sandbox") || !strings.Contains(out, "Read-only file system") {
		t.Errorf("%v: %s", err, out)
	}
	// So is what is mounted beside the workspace, and judged by both of its names.
	bind := func(binds string) (string, error) {
		config := filepath.Join(work, "corral.json5")
		if err := os.WriteFile(config, []byte(`{sandbox: {binds: ["`+binds+`"]}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		return run("--config", "/data/corral.json5", "cat /beside/f; echo x > /beside/f")
	}
	if out, err := bind("/data/w:/beside:ro"); err == nil || !strings.Contains(out, "from the sandbox") || !strings.Contains(out, "Read-only file system") {
		t.Errorf("%v: %s", err, out)
	}
	for binds, want := range map[string]string{
		"/settings:/beside:ro": "cannot mount /etc into a sandbox: it targets the blocked path /etc",
		"/usr:/beside":         "the engine's machine does not have its directory /usr",
		"/corral:/beside/f":    "corral itself cannot write to /corral",
	} {
		if out, err := bind(binds); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", binds, err, out)
		}
	}
	// What the engine's machine does not have is refused, and not made there.
	out, err = run("--workspace", "/usr", "true")
	if err == nil || !strings.Contains(out, "corral runs in a container, and the engine's machine does not have its directory /usr") || !strings.Contains(out, "docker run -v DIR:/usr") {
		t.Errorf("%v: %s", err, out)
	}
}
