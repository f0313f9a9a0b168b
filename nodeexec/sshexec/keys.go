package sshexec

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/corral-exec/corral"
)

// hostKeys returns the check of a target's host key, and the algorithms of its known
// keys. Without a known key it returns an error, before any connection is made.
func hostKeys(t target) (ssh.HostKeyCallback, []string, error) {
	files := slices.DeleteFunc(slices.Clone(t.knownHosts), func(f string) bool { return !exists(f) })
	check, err := knownhosts.New(files...)
	if err != nil {
		return nil, nil, corral.Errorf(corral.ErrUnavailable, "correct the line", "cannot read the keys of hosts that are known: %w", err)
	}
	// The package lists the known keys only in its error about a wrong key.
	probe, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil, nil, err
	}
	nowhere := &net.TCPAddr{IP: net.IPv4zero, Port: 22}
	var key *knownhosts.KeyError
	if err := check(t.known, nowhere, probe); !errors.As(err, &key) || len(key.Want) == 0 {
		return nil, nil, corral.Errorf(corral.ErrUnavailable, "as the gateway's user: "+keyscan(t)+"; then compare the fingerprint with what the host's administrator says",
			"cannot use SSH host %s: its key is not known", t.known)
	}
	var algorithms []string
	for _, k := range key.Want {
		for _, a := range algorithmsOf(k.Key.Type()) {
			if !slices.Contains(algorithms, a) {
				algorithms = append(algorithms, a)
			}
		}
	}
	return func(host string, remote net.Addr, key ssh.PublicKey) error {
		err := check(host, remote, key)
		var mismatch *knownhosts.KeyError
		var revoked *knownhosts.RevokedError
		switch {
		case errors.As(err, &revoked):
			return corral.Errorf(corral.ErrUnavailable, "ask the host's administrator for its new key", "the key of SSH host %s is revoked in %s, line %d", t.known, revoked.Revoked.Filename, revoked.Revoked.Line)
		case errors.As(err, &mismatch):
			return corral.Errorf(corral.ErrUnavailable,
				"if the administrator confirms the new key: ssh-keygen -R '"+knownhosts.Normalize(t.known)+"', then "+keyscan(t),
				"the key of SSH host %s is not the one that is known: %s %s; another machine may be in between", t.known, key.Type(), ssh.FingerprintSHA256(key))
		}
		return err
	}, algorithms, nil
}

// keyscan returns the command that adds a host's key.
func keyscan(t target) string {
	if len(t.jumps) > 0 { // it cannot use jump hosts
		return "ssh " + t.name + " true"
	}
	file := t.knownHosts[0]
	if strings.ContainsAny(file, " '") {
		file = "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	}
	return fmt.Sprintf("ssh-keyscan -p %s %s >>%s", t.port, t.host, file)
}

// algorithmsOf returns the signature algorithms of a key type.
func algorithmsOf(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

// credentials are the keys to try at a login.
type credentials struct {
	signers []ssh.Signer
	notes   []string // why other keys are missing
	hint    string
	agent   net.Conn // it signs; nil if there is none
}

func (c *credentials) close() {
	if c.agent != nil {
		c.agent.Close()
	}
}

// credentials returns the keys for a target, in the order in which ssh tries them: keys
// of the agent that are also given as files, files, and other keys of the agent.
func (all *Hosts) credentials(ctx context.Context, t target) *credentials {
	c := &credentials{}
	var files []ssh.Signer
	var public [][]byte // of the files
	for _, name := range t.identities {
		signer, key, err := readIdentity(name)
		if key != nil {
			public = append(public, key.Marshal())
		}
		var locked *ssh.PassphraseMissingError
		switch {
		case errors.Is(err, fs.ErrNotExist) && (!t.given || key != nil):
		case errors.As(err, &locked):
			c.notes = append(c.notes, name+" is encrypted")
			c.hint = "add the key to an agent, whose SSH_AUTH_SOCK the gateway has: ssh-add " + name
		case err != nil:
			c.notes = append(c.notes, err.Error())
		default:
			files = append(files, signer)
		}
	}
	socket := all.cfg.AgentSocket
	if t.noAgent {
		socket = ""
	}
	held, err := c.ask(ctx, socket)
	if err != nil {
		c.notes = append(c.notes, "the agent does not answer: "+err.Error())
	}
	given := func(s ssh.Signer) bool {
		return slices.ContainsFunc(public, func(p []byte) bool { return bytes.Equal(p, s.PublicKey().Marshal()) })
	}
	for _, s := range held {
		if given(s) {
			c.signers = append(c.signers, s)
		}
	}
	c.signers = append(c.signers, files...)
	for _, s := range held {
		if !given(s) && !t.identitiesOnly {
			c.signers = append(c.signers, s)
		}
	}
	if c.hint == "" {
		c.hint = "give the gateway's user a key that the host knows: in " + all.own("id_ed25519") + ", by IdentityFile in ssh_config, or in an agent"
	}
	return c
}

// ask returns the agent's keys.
func (c *credentials) ask(ctx context.Context, socket string) ([]ssh.Signer, error) {
	if socket == "" {
		return nil, nil
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	c.agent = conn
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	return agent.NewClient(conn).Signers()
}

// maxIdentity bounds a file of a key.
const maxIdentity = 64 << 10

// readIdentity reads a key. If it is encrypted, the public half may still be known,
// from the file itself or a file beside it.
func readIdentity(name string) (ssh.Signer, ssh.PublicKey, error) {
	var public ssh.PublicKey
	if b, err := os.ReadFile(name + ".pub"); err == nil {
		public, _, _, _, _ = ssh.ParseAuthorizedKey(b) // nil if invalid
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, public, err
	}
	switch {
	case info.Size() > maxIdentity || !info.Mode().IsRegular():
		return nil, public, fmt.Errorf("%s is not a key", name)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, public, fmt.Errorf("%s can be read by others (chmod 600 %s)", name, name)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, public, err
	}
	signer, err := ssh.ParsePrivateKey(b)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		if locked.PublicKey != nil {
			public = locked.PublicKey
		}
		return nil, public, err
	case err != nil:
		return nil, public, fmt.Errorf("%s: %w", name, err)
	}
	return signer, signer.PublicKey(), nil
}
