package sshexec

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kevinburke/ssh_config"

	"github.com/corral-exec/corral"
)

// A destination is a host in a person's notation: [user@]host[:port].
type destination struct {
	user string // empty: not given
	host string // without brackets
	port string // empty: not given
}

const maxDestination = 300

func parseDestination(s string) (destination, error) {
	bad := func(why string) (destination, error) {
		return destination{}, corral.Errorf(corral.ErrInvalid, "write ssh:host, ssh:user@host or ssh:user@host:port", "%q is not the name of an SSH host: %s", Prefix+s, why)
	}
	if len(s) > maxDestination {
		return bad("it is too long")
	}
	var d destination
	rest := s
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		d.user, rest = rest[:at], rest[at+1:]
		if d.user == "" || !plain(d.user) {
			return bad("the user has characters that no user has")
		}
	}
	switch {
	case strings.HasPrefix(rest, "["):
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			return bad("the bracket is not closed")
		}
		d.host, rest = rest[1:end], rest[end+1:]
		if rest != "" && rest[0] != ':' {
			return bad("after an address in brackets comes :port or nothing")
		}
		rest = strings.TrimPrefix(rest, ":")
		if end := len(s) - 1; s[end] == ':' {
			return bad("the port is empty")
		}
		d.port = rest
	case strings.Count(rest, ":") > 1:
		return bad("an IPv6 address stands in brackets")
	default:
		var colon bool
		d.host, d.port, colon = strings.Cut(rest, ":")
		if colon && d.port == "" {
			return bad("the port is empty")
		}
	}
	if d.host == "" || !plain(strings.ReplaceAll(d.host, ":", "")) {
		return bad("the host is empty, or has characters that no host has")
	}
	if d.port != "" && !validPort(d.port) {
		return bad("a port is a number from 1 to 65535")
	}
	return d, nil
}

// plain accepts the characters of users and hosts, and nothing that begins like an
// option.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
		if !alnum && (i == 0 || c != '-' && c != '.' && c != '%' && c != '+') {
			return false
		}
	}
	return s != ""
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// A target is a destination after applying ssh_config.
type target struct {
	name             string // for ssh_config
	host, port, user string

	identities     []string // files of keys
	given          bool     // ssh_config names them
	identitiesOnly bool
	noAgent        bool
	knownHosts     []string // files that may not exist
	known          string   // host:port, as known_hosts has it
	jumps          []destination
}

func (t target) address() string { return net.JoinHostPort(t.host, t.port) }

// notHonoured are the unsupported keys of ssh_config that would lead the connection to
// another machine or another user. Other unsupported keys have no such effect.
var notHonoured = []string{
	"BindAddress", "BindInterface", "CanonicalizeHostname", "CertificateFile", "HostbasedAuthentication",
	"KnownHostsCommand", "PKCS11Provider", "ProxyCommand",
}

// resolve reads ssh_config.
func (all *Hosts) resolve(d destination) (target, error) {
	var files settings
	for _, name := range []string{all.own("config"), all.system("ssh_config")} {
		if err := files.add(name); err != nil {
			return target{}, err
		}
	}
	for _, key := range notHonoured {
		if v := files.get(d.host, key); v != "" && v != "no" && v != "none" {
			return target{}, corral.Errorf(corral.ErrUnavailable, "name the host itself, or take it out of what that applies to",
				"cannot use SSH host %s: ssh_config sets %s for it, which Corral does not honour", d.host, key)
		}
	}
	account := all.cfg.User
	if account == "" {
		me, err := user.Current()
		if err != nil {
			return target{}, corral.Errorf(corral.ErrUnavailable, "", "cannot find out the name of this account: %w", err)
		}
		account = me.Username
	}
	t := target{name: d.host, host: d.host, port: d.port, user: d.user}
	if name := files.get(d.host, "HostName"); name != "" {
		var err error
		if t.host, err = expand(name, map[byte]string{'h': d.host}); err != nil {
			return target{}, fmt.Errorf("ssh_config: HostName: %w", err)
		}
	}
	for _, f := range []struct {
		to        *string
		key, then string
	}{{&t.port, "Port", "22"}, {&t.user, "User", account}} {
		if *f.to == "" {
			*f.to = files.get(d.host, f.key)
		}
		*f.to = cmp.Or(*f.to, f.then)
	}
	if !validPort(t.port) {
		return target{}, corral.Errorf(corral.ErrUnavailable, "correct it in ssh_config", "cannot use SSH host %s: %q is not a port", d.host, t.port)
	}
	t.identitiesOnly = files.get(d.host, "IdentitiesOnly") == "yes"
	switch agent := files.get(d.host, "IdentityAgent"); agent {
	case "", "SSH_AUTH_SOCK":
	case "none":
		t.noAgent = true
	default:
		return target{}, corral.Errorf(corral.ErrUnavailable, "start the gateway with that agent's SSH_AUTH_SOCK",
			"cannot use SSH host %s: ssh_config sets IdentityAgent %s for it, which Corral does not honour", d.host, agent)
	}
	tokens := map[byte]string{'h': t.host, 'n': d.host, 'p': t.port, 'r': t.user, 'u': account, 'd': all.cfg.Home}
	paths := func(key string, values []string) ([]string, error) {
		var list []string
		for _, v := range values {
			path, err := expand(v, tokens)
			if err != nil {
				return nil, corral.Errorf(corral.ErrUnavailable, "write the path out", "cannot use SSH host %s: ssh_config: %s: %w", d.host, key, err)
			}
			if rest, ok := strings.CutPrefix(path, "~/"); ok {
				path = filepath.Join(all.cfg.Home, rest)
			}
			list = append(list, path)
		}
		return list, nil
	}
	var err error
	if t.identities, err = paths("IdentityFile", files.all(d.host, "IdentityFile")); err != nil {
		return target{}, err
	}
	if t.given = len(t.identities) > 0; !t.given {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			t.identities = append(t.identities, all.own(name))
		}
	}
	for _, f := range []struct {
		key  string
		then []string
	}{
		{"UserKnownHostsFile", []string{all.own("known_hosts"), all.own("known_hosts2")}},
		{"GlobalKnownHostsFile", []string{all.system("ssh_known_hosts"), all.system("ssh_known_hosts2")}},
	} {
		list, err := paths(f.key, strings.Fields(files.get(d.host, f.key)))
		if err != nil {
			return target{}, err
		}
		if len(list) == 0 {
			list = f.then
		}
		t.knownHosts = append(t.knownHosts, list...)
	}
	t.known = t.address()
	if alias := files.get(d.host, "HostKeyAlias"); alias != "" {
		t.known = net.JoinHostPort(alias, "22")
	}
	if jumps := files.get(d.host, "ProxyJump"); jumps != "" && jumps != "none" {
		for _, j := range strings.Split(jumps, ",") {
			jump, err := parseDestination(strings.TrimPrefix(strings.TrimSpace(j), "ssh://"))
			if err != nil {
				return target{}, corral.Errorf(corral.ErrUnavailable, "correct it in ssh_config", "cannot use SSH host %s: ProxyJump: %w", d.host, err)
			}
			t.jumps = append(t.jumps, jump)
		}
	}
	return t, nil
}

// settings are files of ssh_config. The first file with a value counts.
type settings []*ssh_config.Config

func (s *settings) add(name string) error {
	b, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil
	}
	var c *ssh_config.Config
	if err == nil {
		c, err = ssh_config.Decode(bytes.NewReader(b))
	}
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "of Match only all and host are honoured", "cannot read %s: %w", name, err)
	}
	*s = append(*s, c)
	return nil
}

func (s settings) get(host, key string) string {
	for _, c := range s {
		if v, err := c.Get(host, key); err == nil && v != "" { // an error only means damage
			return v
		}
	}
	return ""
}

func (s settings) all(host, key string) []string {
	var list []string
	for _, c := range s {
		if v, err := c.GetAll(host, key); err == nil {
			list = append(list, v...)
		}
	}
	return list
}

// expand replaces each %x by tokens[x].
func expand(s string, tokens map[byte]string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch {
		case i < len(s) && s[i] == '%':
			b.WriteByte('%')
		case i < len(s) && tokens[s[i]] != "":
			b.WriteString(tokens[s[i]])
		default:
			return "", fmt.Errorf("%q has a token that is not honoured", s)
		}
	}
	return b.String(), nil
}
