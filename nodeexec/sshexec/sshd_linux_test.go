package sshexec

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// An sshd is OpenSSH's server on a free port of loopback, with a host key of
// its own, in which this account logs in. As root it has a home directory of
// its own, too; elsewhere commands work in the account's.
type sshd struct {
	tb    testing.TB
	home  string // of the gateway's user, with its .ssh
	work  string // home directory of commands, as they see it
	files string // that, as we see it
	port  string
	key   ssh.PublicKey // of the host
	user  string
}

const sshdPath = "/usr/sbin/sshd"

// newKey writes a private key and returns the public one.
func newKey(t testing.TB, file, passphrase string) ssh.PublicKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(private, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, string(pem.EncodeToMemory(block)))
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// startSSHD starts a server whose sshd_config has further lines.
func startSSHD(t testing.TB, config ...string) *sshd {
	t.Helper()
	if _, err := os.Stat(sshdPath); err != nil {
		t.Fatalf("%v: install openssh-server (make setup-test)", err)
	}
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: commands would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	d := &sshd{tb: t, home: t.TempDir(), work: me.HomeDir, user: me.Username}
	dir := t.TempDir()
	d.key = newKey(t, filepath.Join(dir, "host_key"), "")
	login := newKey(t, filepath.Join(d.home, ".ssh", "id_ed25519"), "")
	write(t, filepath.Join(dir, "authorized_keys"), string(ssh.MarshalAuthorizedKey(login)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	write(t, filepath.Join(dir, "sshd_config"), strings.Join(append(config,
		"ListenAddress 127.0.0.1", "Port "+d.port, "HostKey "+filepath.Join(dir, "host_key"), "PidFile none",
		"AuthorizedKeysFile "+filepath.Join(dir, "authorized_keys"), "StrictModes no", "UsePAM no", "PermitRootLogin yes",
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "PrintMotd no", "LogLevel ERROR", "MaxStartups 100",
	), "\n")+"\n")
	args := []string{sshdPath, "-D", "-e", "-f", filepath.Join(dir, "sshd_config")}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
		d.files = testdir.New(t)
		args = append([]string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" "$1" && shift && exec "$@"`, d.files, me.HomeDir}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if log.Len() > 0 {
			t.Logf("sshd: %s", log.String())
		}
	})
	t.Cleanup(stop)
	for end := time.Now().Add(10 * time.Second); ; {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", d.port))
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			stop()
			t.Fatalf("sshd does not listen: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.configure()
	d.trust(d.key)
	return d
}

// configure writes ssh_config: the server is box.
func (d *sshd) configure(more ...string) {
	write(d.tb, filepath.Join(d.home, ".ssh", "config"), strings.Join(append([]string{
		"Host box", "HostName 127.0.0.1", "Port " + d.port, "User " + d.user,
	}, more...), "\n")+"\n")
}

// trust makes these the keys that are known.
func (d *sshd) trust(keys ...ssh.PublicKey) {
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintln(&b, knownhosts.Line([]string{"[127.0.0.1]:" + d.port}, k))
	}
	write(d.tb, filepath.Join(d.home, ".ssh", "known_hosts"), b.String())
}

func (d *sshd) config(stateDir string) Config {
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("CORRAL_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return Config{
		StateDir: stateDir, Log: log, Home: d.home, User: d.user, SystemDir: filepath.Join(d.home, "none"),
		Allowed: func() []string { return []string{"box"} },
	}
}

// hosts are Hosts that include the server.
func (d *sshd) hosts(t testing.TB, cfg Config) *Hosts {
	t.Helper()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (d *sshd) open(t testing.TB) *Hosts { return d.hosts(t, d.config(t.TempDir())) }

// box is the executor of the server.
func box(t testing.TB, n *Hosts) corral.Executor {
	t.Helper()
	x, err := n.Select("ssh:box")
	if err != nil {
		t.Fatal(err)
	}
	return x
}
