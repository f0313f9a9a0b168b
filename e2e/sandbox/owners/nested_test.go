//go:build e2e

package owners_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

// A nest is corral in a container, with the engine's socket: its directory /data is
// another one on the engine's machine, and what it mounts is that.
type nest struct {
	engine  *docker.Engine
	address string
	args    []string // of docker run, up to the program's own
	work    string   // is /data there; a workspace is w in it
}

func newNest(t *testing.T) nest {
	t.Helper()
	engine := enginetest.New(t)
	info, err := engine.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	work := testdir.New(t)
	program := filepath.Join(testdir.New(t), "corral")
	built.Copy(t, "cmd/corral", program)
	if err := os.MkdirAll(filepath.Join(work, "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(work, "w"), 1000, 1000); err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimPrefix(info.Address, "unix://")
	return nest{engine: engine, address: info.Address, work: work, args: []string{
		"--network=none", "-v", socket + ":/engine.sock", "-v", program + ":/corral:ro", "-v", wardenbintest.Build(t) + ":/warden:ro",
		"-v", work + ":/data", "-v", "/etc:/settings:ro", "-e", "DOCKER_HOST=unix:///engine.sock", "-e", "CORRAL_WARDEN=/warden", "-e", "HOME=/root",
		images.Busybox, "/corral", "exec", "--local", "--host", "sandbox", "--ephemeral", "--image", images.Busybox,
	}}
}

// docker runs the engine's own program.
func (n nest) docker(args ...string) (string, error) {
	cmd := exec.Command("docker", args...)
	if n.address != "unix:///var/run/docker.sock" {
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+n.address)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run runs corral exec, with these arguments, in a container.
func (n nest) run(args ...string) (string, error) {
	return n.docker(slices.Concat([]string{"run", "--rm"}, n.args, args)...)
}

func TestNested(t *testing.T) {
	n := newNest(t)
	run, work := n.run, n.work
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

// Programs that use one engine and do not see each other's files leave each other's
// sandboxes alone, until their owner is dead.
func TestNestedBesideOthers(t *testing.T) {
	n := newNest(t)
	owner := "corral-test-" + corral.NewID()
	type result struct {
		out string
		err error
	}
	ended := make(chan result, 1)
	go func() {
		out, err := n.docker(slices.Concat([]string{"run", "--rm", "--name", owner}, n.args, []string{"--workspace", "/data/w", "--workspace-access", "rw", "touch begun; sleep 600"})...)
		ended <- result{out, err}
	}()
	begun := filepath.Join(n.work, "w", "begun")
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		select {
		case r := <-ended:
			t.Fatalf("%v: %s", r.err, r.out)
		default:
		}
		if time.Since(start) > time.Minute {
			t.Fatal("nothing has begun")
		}
	}
	kill := sync.OnceFunc(func() {
		if out, err := n.docker("kill", owner); err != nil {
			t.Error(out)
		}
		<-ended
	})
	defer kill()
	id, err := n.docker("inspect", "--format", "{{.Id}}", owner)
	if err != nil {
		t.Fatal(id)
	}
	left := func() []string {
		t.Helper()
		list, err := n.engine.List(t.Context(), map[string]string{"corral.owner": strings.TrimSpace(id)})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range list {
			if c.Running {
				ids = append(ids, c.ID)
			}
		}
		return ids
	}
	if len(left()) != 1 {
		t.Fatalf("it has the containers %q", left())
	}
	// One in another container, and one on the engine's machine.
	if out, err := n.run("true"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sweep := func() {
		t.Helper()
		if _, err := sandbox.Sweep(t.Context(), n.engine, testdir.New(t)); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	if len(left()) != 1 {
		t.Fatal("the sandbox of one that lives is gone")
	}
	kill()
	sweep()
	if ids := left(); len(ids) != 0 {
		t.Errorf("the sandbox of one that was killed is left: %q", ids)
	}
}
