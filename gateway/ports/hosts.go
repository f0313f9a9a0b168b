// Package ports is about the ports of sandboxes and nodes, as clients reach them by HTTP:
// the host names PORT-SANDBOX.DOMAIN, each with an origin of its own, which is never that
// of the API; the tokens that open the ports of one sandbox; and the reverse proxy to what
// listens there.
package ports

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
)

// A Domain is below which the host names of ports are. The zero Domain has none.
type Domain struct {
	scheme string
	name   string // in lower case
	port   string // with its colon; empty: the scheme's
}

var domainName = lazy.Regexp(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// Parse reads a domain as the configuration has it: "sandboxes.example.com", with a port
// where that is another than 443, and with "http://" before it where there is no TLS.
func Parse(text string) (Domain, error) {
	if text == "" {
		return Domain{}, nil
	}
	given := text
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return Domain{}, corral.Errorf(corral.ErrInvalid, "write sandboxes.example.com, or http://localhost:7777", "%q is no domain for ports", given)
	}
	d := Domain{scheme: u.Scheme, name: strings.ToLower(u.Hostname())}
	if !domainName().MatchString(d.name) || len(d.name) > 253-maxLabel || net.ParseIP(d.name) != nil {
		return Domain{}, corral.Errorf(corral.ErrInvalid, "write a name that *. can be put before, such as sandboxes.example.com", "%q is no domain name", u.Hostname())
	}
	if p := u.Port(); p != "" && (p != "443" || d.scheme != "https") && (p != "80" || d.scheme != "http") {
		d.port = ":" + p
	}
	return d, nil
}

// IsZero reports whether there is no domain.
func (d Domain) IsZero() bool { return d.name == "" }

// Secure reports whether browsers reach it by TLS.
func (d Domain) Secure() bool { return d.scheme == "https" }

// Name is the domain, without a port.
func (d Domain) Name() string { return d.name }

// String is the domain, with the port that the gateway is reached at if that is not the
// scheme's.
func (d Domain) String() string { return d.name + d.port }

// URL is that of a port of a sandbox.
func (d Domain) URL(port int, label string) string {
	return d.scheme + "://" + d.Host(port, label) + "/"
}

// Host is the host name of a port of a sandbox, with the port that the gateway is reached
// at, if that is not the scheme's.
func (d Domain) Host(port int, label string) string {
	return strconv.Itoa(port) + "-" + label + "." + d.name + d.port
}

// Match takes a request's host apart. Inside says that it is below the domain; ok, that it
// is a port's. What is inside and no port's leads nowhere.
func (d Domain) Match(host string) (port int, label string, inside, ok bool) {
	if d.IsZero() {
		return 0, "", false, false
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	first, inside := strings.CutSuffix(strings.TrimSuffix(strings.ToLower(host), "."), "."+d.name)
	if !inside {
		return 0, "", false, false
	}
	number, label, _ := strings.Cut(first, "-")
	port, err := Number(number)
	if err != nil || number[0] == '0' || len(first) > maxLabel || !plain().MatchString(label) {
		return 0, "", true, false
	}
	return port, label, true, true
}

// Number reads the number of a TCP port, which has one spelling: what compares it as text
// finds it.
func Number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || text[0] == '0' {
		return 0, corral.Errorf(corral.ErrInvalid, "ports are numbered 1 to 65535", "%.20q is no TCP port", text)
	}
	return int(n), nil
}

// maxLabel is how long a part of a domain name may be (RFC 1035, section 2.3.4).
const maxLabel = 63

// maxName is how much of that is left beside "65535-".
const maxName = maxLabel - 6

var (
	plain   = lazy.Regexp(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	hashed  = lazy.Regexp(`-[0-9a-f]{20}$`)
	noPlain = regexp.MustCompile(`[^a-z0-9]+`)
)

// Label is what stands for a sandbox in a host name: its name, if that can be. Else it is
// what can be read of the name, and a hash of it.
func Label(name string) string {
	if plain().MatchString(name) && len(name) <= maxName && !hashed().MatchString(name) {
		return name
	}
	slug := strings.Trim(noPlain.ReplaceAllString(strings.ToLower(name), "-"), "-")
	slug = strings.TrimRight(slug[:min(len(slug), 32)], "-")
	slug = cmp.Or(slug, "x")
	sum := sha256.Sum256([]byte(name))
	return slug + "-" + hex.EncodeToString(sum[:10])
}

// A Secret makes tokens. An empty one makes none.
type Secret string

// TokenPrefix begins each token.
const TokenPrefix = "corral_port_"

// Token is what opens all ports of the sandbox with a label.
func (s Secret) Token(label string) string {
	if s == "" {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(s))
	mac.Write([]byte("ports of " + label))
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Opens reports whether a token is that of the sandbox with a label.
func (s Secret) Opens(label, token string) bool {
	own := s.Token(label)
	return own != "" && subtle.ConstantTimeCompare([]byte(own), []byte(token)) == 1
}
