package sshexec

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/corral-exec/corral"
)

// try runs a command, and returns what it prints.
func try(t *testing.T, x corral.Executor, cmd corral.Command) (string, error) {
	t.Helper()
	p, err := x.Start(t.Context(), cmd)
	if err != nil {
		return "", err
	}
	exit, err := p.Wait(t.Context())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for off, buf := int64(0), make([]byte, 4<<10); ; {
		c, err := p.Log().Read(t.Context(), off, buf)
		if err != nil {
			break
		}
		b.Write(c.Data)
		off = c.Next()
	}
	if !exit.Success() {
		return b.String(), errors.New(exit.String() + ": " + b.String())
	}
	return b.String(), nil
}

func runs(t *testing.T, x corral.Executor) {
	t.Helper()
	if out, err := try(t, x, corral.Command{Shell: "echo it runs"}); err != nil || out != "it runs\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// refuses checks that nothing starts, and that the error says why and what to
// do.
func refuses(t *testing.T, x corral.Executor, kind error, text, hint string) {
	t.Helper()
	_, err := x.Start(t.Context(), corral.Command{Shell: "true"})
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) || !strings.Contains(corral.Hint(err), hint) {
		t.Errorf("error %v, hint %q; not %q, %q, %q", err, corral.Hint(err), kind, text, hint)
	}
}

func TestHostKeys(t *testing.T) {
	d := startSSHD(t)
	other := newKey(t, filepath.Join(t.TempDir(), "key"), "")
	known := filepath.Join(d.home, ".ssh", "known_hosts")
	x := box(t, d.open(t))

	write(t, known, "")
	refuses(t, x, corral.ErrUnavailable, "its key is not known", "ssh-keyscan -p "+d.port+" 127.0.0.1 >>"+known)
	if err := os.Remove(known); err != nil {
		t.Fatal(err)
	}
	refuses(t, x, corral.ErrUnavailable, "its key is not known", "ssh-keyscan")
	d.trust(other)
	refuses(t, x, corral.ErrUnavailable, "is not the one that is known: ssh-ed25519 "+ssh.FingerprintSHA256(d.key), "ssh-keygen -R '[127.0.0.1]:"+d.port+"'")
	at := "[127.0.0.1]:" + d.port + " "
	write(t, known, "@revoked "+at+string(ssh.MarshalAuthorizedKey(d.key))+at+string(ssh.MarshalAuthorizedKey(other)))
	refuses(t, x, corral.ErrUnavailable, "is revoked", "administrator")
	write(t, known, "no key\n")
	refuses(t, x, corral.ErrUnavailable, known, "correct the line")
	d.trust(other, d.key)
	runs(t, x)
}

func TestKeys(t *testing.T) {
	d := startSSHD(t)
	key := filepath.Join(d.home, ".ssh", "id_ed25519")
	locked := filepath.Join(d.home, ".ssh", "locked")
	newKey(t, locked, "secret")
	x := box(t, d.open(t))

	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	refuses(t, x, corral.ErrUnavailable, "there is no key to log in with as user "+d.user+" ("+key+" can be read by others", "IdentityFile")
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	d.configure("IdentityFile " + locked)
	refuses(t, x, corral.ErrUnavailable, locked+" is encrypted", "ssh-add "+locked)
	d.configure("IdentityFile " + locked + ".none")
	refuses(t, x, corral.ErrUnavailable, "no such file", "IdentityFile")
	newKey(t, locked+"2", "")
	d.configure("IdentityFile " + locked + "2")
	refuses(t, x, corral.ErrUnavailable, "none of the keys that there are is accepted for user "+d.user, "IdentityFile")
	d.configure("IdentityFile "+locked+"2", "IdentityFile "+key)
	runs(t, x)
}

// serveAgent is an agent with one key. Where it listens is returned.
func serveAgent(t *testing.T, key any) string {
	t.Helper()
	keys := agent.NewKeyring()
	if err := keys.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = agent.ServeAgent(keys, c) // ends with io.EOF
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return socket
}

func TestAgent(t *testing.T) {
	d := startSSHD(t)
	file := filepath.Join(d.home, ".ssh", "id_ed25519")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	private, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	cfg := d.config(t.TempDir())
	cfg.AgentSocket = filepath.Join(t.TempDir(), "nobody")
	refuses(t, box(t, d.hosts(t, cfg)), corral.ErrUnavailable, "the agent does not answer", "agent")
	cfg = d.config(t.TempDir())
	cfg.AgentSocket = serveAgent(t, private)
	runs(t, box(t, d.hosts(t, cfg)))

	// With IdentitiesOnly the agent's keys count that are named by a file.
	cfg.StateDir = t.TempDir()
	x := box(t, d.hosts(t, cfg))
	d.configure("IdentitiesOnly yes")
	refuses(t, x, corral.ErrUnavailable, "there is no key", "IdentityFile")
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file+".pub", string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	runs(t, x)
}

func TestProxyJump(t *testing.T) {
	d := startSSHD(t)
	inner := startSSHD(t)
	login, err := os.ReadFile(filepath.Join(inner.home, ".ssh", "id_ed25519"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.home, ".ssh", "inner"), string(login))
	keys, err := os.ReadFile(filepath.Join(inner.home, ".ssh", "known_hosts"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.home, ".ssh", "inner_hosts"), string(keys))
	d.configure("Host inner", "HostName 127.0.0.1", "Port "+inner.port, "User "+inner.user, "ProxyJump box",
		"IdentityFile ~/.ssh/inner", "UserKnownHostsFile ~/.ssh/inner_hosts",
		"Host circle", "HostName 127.0.0.1", "Port "+inner.port, "ProxyJump circle")
	cfg := d.config(t.TempDir())
	cfg.Allowed = func() []string { return []string{"inner", "circle"} }
	n := d.hosts(t, cfg)
	x, err := n.Select("ssh:inner")
	if err != nil {
		t.Fatal(err)
	}
	out, err := try(t, x, corral.Command{Shell: "echo $SSH_CONNECTION"})
	if err != nil || !strings.HasSuffix(out, " "+inner.port+"\n") {
		t.Errorf("%q, %v", out, err)
	}
	if x, err = n.Select("ssh:circle"); err != nil {
		t.Fatal(err)
	}
	refuses(t, x, corral.ErrUnavailable, "circle", "")
}

func TestAllowed(t *testing.T) {
	d := &sshd{tb: t, home: t.TempDir()}
	cfg := d.config(t.TempDir())
	allowed := []string(nil)
	cfg.Allowed = func() []string { return allowed }
	nodes := Nodes{SSH: d.hosts(t, cfg), Others: none{}}
	check := func(name string, kind error, text, hint string) {
		t.Helper()
		_, _, err := nodes.Select(t.Context(), name)
		if !errors.Is(err, kind) || kind != nil && (!strings.Contains(err.Error(), text) || !strings.Contains(corral.Hint(err), hint)) {
			t.Errorf("%s: %v, hint %q", name, err, corral.Hint(err))
		}
		_, _, _, derr := nodes.Decide(t.Context(), name, "a", corral.Command{Shell: "true"})
		if kind == nil {
			kind = errors.ErrUnsupported
		}
		if strings.HasPrefix(name, Prefix) && !errors.Is(derr, kind) {
			t.Errorf("Decide(%s): %v", name, derr)
		}
	}
	check("ssh:build1", corral.ErrDenied, "no SSH host is allowed", `nodes: { ssh: ["build1"] }`)
	allowed = []string{"build1", "ci@build2:22"}
	check("ssh:build1", nil, "", "")
	check("ssh:ci@build2:22", nil, "", "")
	check("ssh:root@build1", corral.ErrDenied, "allowed are build1, ci@build2:22", `["root@build1"]`)
	check("ssh:build1:2222", corral.ErrDenied, "", "")
	check("ssh:BUILD1", corral.ErrDenied, "", "")
	check("ssh:-oProxyCommand=sh", corral.ErrInvalid, "", "ssh:host")
	check("build1", corral.ErrUnavailable, "no node", "")
	check("", corral.ErrUnavailable, "no node", "")
}

// none are no other nodes.
type none struct{}

func (none) Select(_ context.Context, name string) (corral.Executor, string, error) {
	return nil, "", corral.Errorf(corral.ErrUnavailable, "", "no node %q", name)
}

func (none) Attach(_ context.Context, id string) (corral.Process, error) {
	return nil, corral.Errorf(corral.ErrNotFound, "", "no process %s", id)
}
