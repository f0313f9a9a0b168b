package sshexec

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

var destinations = []struct {
	text string
	want destination // zero: it is none
}{
	{"build1", destination{host: "build1"}},
	{"ci@build1", destination{user: "ci", host: "build1"}},
	{"ci@build1:2222", destination{user: "ci", host: "build1", port: "2222"}},
	{"10.0.0.7:22", destination{host: "10.0.0.7", port: "22"}},
	{"[fd00::7]", destination{host: "fd00::7"}},
	{"ci@[fe80::1%eth0]:65535", destination{user: "ci", host: "fe80::1%eth0", port: "65535"}},
	{"a.b-c_d.example", destination{host: "a.b-c_d.example"}},
	{text: ""},
	{text: "@build1"},
	{text: "ci@"},
	{text: ":22"},
	{text: "build1:"},
	{text: "build1:0"},
	{text: "build1:65536"},
	{text: "build1:+22"},
	{text: "build1:22:22"},
	{text: "fd00::7"},
	{text: "[fd00::7"},
	{text: "[fd00::7]22"},
	{text: "[fd00::7]:"},
	{text: "[]"},
	{text: "-oProxyCommand=sh"},
	{text: "-l@build1"},
	{text: "a b"},
	{text: "a\nb"},
	{text: "a;b"},
	{text: "a/b"},
	{text: "ci@root@"},
	{text: strings.Repeat("a", maxDestination+1)},
}

func TestParseDestination(t *testing.T) {
	for _, test := range destinations {
		got, err := parseDestination(test.text)
		if (err == nil) != (test.want != destination{}) || err == nil && got != test.want {
			t.Errorf("%q: %+v, %v", test.text, got, err)
		}
		if err != nil && !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%q: %v is no ErrInvalid", test.text, err)
		}
	}
}

func FuzzParseDestination(f *testing.F) {
	for _, test := range destinations {
		f.Add(test.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDestination(text)
		if err != nil {
			return
		}
		for _, part := range []string{d.user, d.host, d.port} {
			if strings.HasPrefix(part, "-") || strings.ContainsAny(part, " \t\r\n\x00'\"`$;&|<>()*?/\\@") {
				t.Errorf("%q: %+v", text, d)
			}
		}
	})
}

func TestResolve(t *testing.T) {
	home := t.TempDir()
	ssh := func(name string) string { return filepath.Join(home, ".ssh", name) }
	all := &Hosts{cfg: Config{Home: home, User: "me", SystemDir: filepath.Join(home, "etc")}}
	write(t, ssh("more"), "Host included\nPort 5\n")
	write(t, filepath.Join(home, "etc", "ssh_config"), "Host *\nUser everybody\nPort 77\n")
	write(t, ssh("config"), `
Host build*
  HostName %h.example
  Port 2222
  IdentityFile ~/.ssh/%n_%r
  IdentityFile %d/other
Host buildx
  Port 1
Host alias
  HostName 10.0.0.1
  HostKeyAlias build
  IdentitiesOnly yes
  UserKnownHostsFile /k1 ~/k2
Host jumps
  ProxyJump ci@one:2,two
Host no-jumps
  ProxyJump none
  ProxyCommand none
Host proxied
  ProxyCommand nc %h %p
Host certified
  CertificateFile ~/.ssh/id-cert.pub
Host agentless
  IdentityAgent none
Host other-agent
  IdentityAgent /run/agent
Host badport
  Port many
Host badtoken
  IdentityFile ~/%C
Match host matched
  Port 9
Match all
  ServerAliveInterval 3
`)
	known := []string{ssh("known_hosts"), ssh("known_hosts2"), filepath.Join(home, "etc", "ssh_known_hosts"), filepath.Join(home, "etc", "ssh_known_hosts2")}
	keys := []string{ssh("id_ed25519"), ssh("id_ecdsa"), ssh("id_rsa")}
	plain := func(host, port, user string) target {
		return target{host: host, port: port, user: user, identities: keys, knownHosts: known, known: host + ":" + port}
	}
	build := target{host: "build1.example", port: "2222", user: "everybody", identities: []string{ssh("build1_everybody"), filepath.Join(home, "other")}, given: true, knownHosts: known, known: "build1.example:2222"}
	alias := plain("10.0.0.1", "77", "everybody")
	alias.known, alias.identitiesOnly = "build:22", true
	alias.knownHosts = append([]string{"/k1", filepath.Join(home, "k2")}, known[2:]...)
	jumps := plain("jumps", "77", "everybody")
	jumps.jumps = []destination{{user: "ci", host: "one", port: "2"}, {host: "two"}}
	agentless := plain("agentless", "77", "everybody")
	agentless.noAgent = true
	for _, test := range []struct {
		name string
		want target
		err  string
	}{
		{"elsewhere", plain("elsewhere", "77", "everybody"), ""},
		{"root@elsewhere:8", plain("elsewhere", "8", "root"), ""},
		{"build1", build, ""},
		{"alias", alias, ""},
		{"jumps", jumps, ""},
		{"no-jumps", plain("no-jumps", "77", "everybody"), ""},
		{"matched", plain("matched", "9", "everybody"), ""},
		{"proxied", target{}, "ProxyCommand"},
		{"certified", target{}, "CertificateFile"},
		{"agentless", agentless, ""},
		{"other-agent", target{}, "IdentityAgent /run/agent"},
		{"badport", target{}, "not a port"},
		{"badtoken", target{}, "token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := parseDestination(test.name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := all.resolve(d)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || !errors.Is(err, corral.ErrUnavailable) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			test.want.name = d.host
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(target{}, destination{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	write(t, ssh("config"), "Match exec true\nPort 1\n")
	if _, err := all.resolve(destination{host: "x"}); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), ssh("config")) {
		t.Errorf("Match exec: %v", err)
	}
}
