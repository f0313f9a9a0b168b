//go:build e2e && linux

package sandbox_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// says is what a command prints, which has to succeed.
func says(t *testing.T, x corral.Executor, shell string) string {
	t.Helper()
	r, err := runner.Run(t.Context(), x, corral.Command{Shell: shell}, runner.Options{})
	if err != nil || !r.Exit.Success() {
		t.Errorf("%s: %v, %v, %q", shell, err, r.Exit, r.Stderr.String())
	}
	return strings.TrimSpace(r.Stdout.String())
}

func leased(t *testing.T, uid string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join("/run/corral-users", uid))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// No two containers have the same user, also if different programs made them. A user is
// given back when its container is removed.
func TestOwnUsers(t *testing.T) {
	b, other := newBench(t), newBench(t)
	pool, err := sandbox.NewPool(b.cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = pool.Close()
		}
	}()
	for end := time.Now().Add(time.Minute); pool.Ready() == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the pool stays empty")
		}
	}
	boxes := []*sandbox.Executor{
		b.open(func(c *sandbox.Config) { c.Name = "one" }),
		b.open(func(c *sandbox.Config) { c.Name = "two" }),
		b.open(func(c *sandbox.Config) { c.Name, c.Pool = "pooled", pool }),
		other.open(func(c *sandbox.Config) { c.Name = "one" }),
		other.open(func(c *sandbox.Config) { c.Name, c.Ephemeral = "once", true }),
		b.open(func(c *sandbox.Config) {
			c.Name, c.Driver = "by-exec", sandbox.DriverExec
		}),
	}
	machine, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{strings.TrimSpace(string(machine)): 1}
	var ids []string
	for i, x := range boxes {
		id := says(t, x, "id -u")
		if n, err := strconv.Atoi(id); err != nil || n < 1879048192 || n > 1879113727 || says(t, x, "id -g") != id || seen[id] != 0 || !leased(t, id) {
			t.Errorf("sandbox %d has the user %s, and another has it: %v (noted: %v)", i, id, seen[id] != 0, leased(t, id))
		}
		seen[id]++
		ids = append(ids, id)
		// Nor has it another's boot ID, or the machine's.
		boot := says(t, x, "cat /proc/sys/kernel/random/boot_id")
		if _, err := hex.DecodeString(strings.ReplaceAll(boot, "-", "")); err != nil || len(boot) != 36 || seen[boot] != 0 {
			t.Errorf("sandbox %d has the boot ID %q, and another has it: %v", i, boot, seen[boot] != 0)
		}
		seen[boot]++
	}
	// A container that is made anew has another user, and its files are still its
	// sandbox's; the one that commands are left in keeps its own.
	says(t, boxes[0], "mkdir -p d; echo x >d/f; chmod 600 d/f")
	p := begin(t, boxes[0], "left", "while test -e d/f; do sleep 0.1; done; id -u")
	if _, _, err := boxes[0].Recreate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if boot := says(t, boxes[0], "cat /proc/sys/kernel/random/boot_id"); seen[boot] != 0 {
		t.Errorf("the next container has the boot ID %s, as one before", boot)
	}
	anew := says(t, boxes[0], "id -u; cat d/f; echo y >>d/f; stat -c %u d/f; stat -c %u .; rm d/f")
	uid, rest, _ := strings.Cut(anew, "\n")
	if seen[uid] != 0 || rest != "x\n"+uid+"\n"+uid {
		t.Errorf("the next container: %q", anew)
	}
	if exit, err := p.Wait(t.Context()); err != nil || !exit.Success() {
		t.Errorf("%v, %v", exit, err)
	}
	if list, err := sandbox.Sandboxes(b.cfg.StateDir); err != nil || !slicesContain(list, uid+":"+uid) {
		t.Errorf("nobody says whose user %s is: %+v, %v", uid, list, err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	closed = true
	for i, x := range boxes {
		if err := x.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if leased(t, ids[i]) {
			t.Errorf("the user %s of sandbox %d is not given back", ids[i], i)
		}
	}
	if leased(t, uid) {
		t.Errorf("the user %s is not given back", uid)
	}
}

func slicesContain(list []sandbox.Sandbox, user string) bool {
	for _, s := range list {
		for _, b := range s.Boxes {
			if b.User == user {
				return true
			}
		}
	}
	return false
}

// With a user of its own, a container finds in the directories of this machine
// what their owner finds there, and what it writes is the owner's.
func TestOwnUserFiles(t *testing.T) {
	const uid, gid, foreign = 4321, 4322, 4399
	b := newBench(t)
	top := testdir.New(t)
	work, data, file := filepath.Join(top, "work"), filepath.Join(top, "data"), filepath.Join(top, "file")
	make := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{work, data, filepath.Join(work, "mounted")} {
		make(os.Mkdir(dir, 0o700))
		make(os.Chown(dir, uid, gid))
	}
	write := func(name string, mode os.FileMode, uid, gid int) {
		t.Helper()
		make(os.WriteFile(name, []byte("content\n"), 0o600))
		make(os.Chown(name, uid, gid))
		make(os.Chmod(name, mode))
	}
	write(file, 0o600, uid, gid)
	write(filepath.Join(work, "grouped"), 0o600, uid, foreign) // in a group that commands are not in
	write(filepath.Join(work, "roots"), 0o644, 0, 0)
	write(filepath.Join(work, "hidden"), 0o600, 0, 0)
	make(syscall.Mount("tmpfs", filepath.Join(work, "mounted"), "tmpfs", 0, fmt.Sprintf("uid=%d,gid=%d,mode=700", uid, gid)))
	defer func() { make(syscall.Unmount(filepath.Join(work, "mounted"), 0)) }()
	secret := filepath.Join(top, "secret")
	write(secret, 0o600, 0, 0)
	x := b.open(func(c *sandbox.Config) {
		c.Workspace.Dir, c.Workspace.Access = work, sandbox.AccessReadWrite
		c.Mounts.Binds = []string{data + ":/data:rw", file + ":/file:rw"}
		c.Mounts.Secrets = map[string]secrets.Source{"KEY": {File: secret}}
	})
	me := says(t, x, "id -u")
	for _, tc := range []struct{ shell, want string }{
		{"stat -c %u:%g . grouped roots", me + ":" + me + "\n" + me + ":" + strconv.Itoa(foreign) + "\n0:0"},
		{"echo more >>grouped; tail -1 grouped", "more"},
		{"cat roots; cat hidden 2>/dev/null || echo no", "content\nno"},
		{"echo x >roots 2>/dev/null || echo no", "no"},
		{"echo x >mounted/f; stat -c %u mounted/f", me},
		{"echo x >/data/f; stat -c %u /data/f", me},
		{"echo more >>/file; tail -1 /file", "more"},
		{"cat /run/secrets/KEY", "content"},
		{"whoami 2>/dev/null || id -un", "sandbox"},
		{"id -gn; tail -1 /etc/group", "sandbox\nsandbox:x:" + me + ":"},
		{"eval echo ~$(id -un) $HOME", "/workspace /workspace"},
		{"head -1 /etc/passwd; tail -1 /etc/passwd; wc -l </etc/passwd", "root:x:0:0:root:/root:/bin/sh\nsandbox:x:" + me + ":" + me + "::/workspace:/bin/sh\n4"},
		{"echo x >>/etc/passwd || echo no", "no"},
		{"mkdir d; ln -s d l; echo x >d/f; mv d/f d/g; ls d", "g"},
	} {
		if got := says(t, x, tc.shell); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.shell, got, tc.want)
		}
	}
	for name, owner := range map[string][2]uint32{
		filepath.Join(work, "grouped"): {uid, foreign}, filepath.Join(work, "roots"): {0, 0}, filepath.Join(work, "d"): {uid, gid},
		filepath.Join(work, "d/g"): {uid, gid}, filepath.Join(work, "l"): {uid, gid}, filepath.Join(work, "mounted/f"): {uid, gid}, filepath.Join(data, "f"): {uid, gid}, file: {uid, gid},
	} {
		info, err := os.Lstat(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if st := info.Sys().(*syscall.Stat_t); [2]uint32{st.Uid, st.Gid} != owner {
			t.Errorf("%s is of %d:%d, want %v", name, st.Uid, st.Gid, owner)
		}
	}
	make(x.Remove(t.Context()))

	for _, tc := range []struct {
		change func(*sandbox.Config)
		want   string
	}{
		{func(c *sandbox.Config) { c.Isolation.UIDRange = sandbox.SharedUIDs }, fmt.Sprintf("%d:%d", uid, gid)},
		{func(c *sandbox.Config) { c.Isolation.User = "4321:4445" }, "4321:4445"},
	} {
		y, err := sandbox.New(b.like(func(c *sandbox.Config) {
			c.Workspace.Dir, c.Workspace.Access, c.Name = work, sandbox.AccessReadWrite, "named"
			tc.change(c)
		}))
		make(err)
		if got, want := says(t, y, "echo $(id -u):$(id -g) $(id -un) $(eval echo ~$(id -un))"), tc.want+" sandbox /workspace"; got != want {
			t.Errorf("commands run as %s, want %s", got, want)
		}
		make(errors.Join(y.Remove(t.Context()), y.Close()))
	}
	if left, err := os.ReadDir("/run/corral-mounts"); err != nil || len(left) != 0 {
		for _, l := range left {
			if strings.HasPrefix(l.Name(), strconv.Itoa(os.Getpid())+"-") {
				t.Errorf("a mount is left: %s", l.Name())
			}
		}
	}
}
