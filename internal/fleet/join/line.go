package join

import (
	"cmp"
	"encoding/hex"
	"net"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
)

// A Line says where a gateway's nodes connect to, and which keys they trust.
type Line struct {
	Hosts     []string // HOST:PORT each; at least one
	WebSocket bool
	Key       string // the gateway's public nkey
	// Cert is the SHA-256 of the server's certificate, in lower-case
	// hexadecimal. Empty: a certificate that the machine trusts anyway.
	Cert string
}

const (
	schemeTLS = "corral"
	schemeWSS = "corral+wss"
	system    = "system"

	lineHint = "copy the whole line that corral nodes join prints on the gateway"
	maxLine  = 2 << 10
)

// ParseLine reads a line as String writes it.
func ParseLine(s string) (Line, error) {
	s = strings.TrimSpace(s)
	bad := func(why string) (Line, error) {
		if len(s) > 120 {
			s = s[:120] + "…"
		}
		return Line{}, corral.Errorf(corral.ErrInvalid, lineHint, "%q does not say where a gateway is: %s", s, why)
	}
	if len(s) > maxLine {
		return bad("it is too long")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != schemeTLS && scheme != schemeWSS {
		return bad("it does not begin with " + schemeTLS + ":// or " + schemeWSS + "://")
	}
	part := strings.Split(rest, "/")
	if len(part) != 3 {
		return bad("it is not HOST:PORT/KEY/CERT")
	}
	l := Line{Hosts: strings.Split(part[0], ","), WebSocket: scheme == schemeWSS, Key: part[1], Cert: part[2]}
	for _, h := range l.Hosts {
		host, port, err := net.SplitHostPort(h)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" || strings.ContainsAny(host, " @?#\\%\"") {
			return bad(strconv.Quote(h) + " is not HOST:PORT")
		}
	}
	if !nkeys.IsValidPublicKey(l.Key) {
		return bad("the key is no nkey")
	}
	if l.Cert == system {
		l.Cert = ""
	} else if b, err := hex.DecodeString(l.Cert); err != nil || len(b) != 32 || strings.ToLower(l.Cert) != l.Cert {
		return bad("the certificate is no SHA-256 in hexadecimal")
	}
	return l, nil
}

func (l Line) String() string {
	scheme, cert := schemeTLS, l.Cert
	if l.WebSocket {
		scheme = schemeWSS
	}
	cert = cmp.Or(cert, system)
	return scheme + "://" + strings.Join(l.Hosts, ",") + "/" + l.Key + "/" + cert
}

// URL returns the hosts in the form for a NATS client.
func (l Line) URL() string {
	scheme := "tls://"
	if l.WebSocket {
		scheme = "wss://"
	}
	urls := make([]string, len(l.Hosts))
	for i, h := range l.Hosts {
		urls[i] = scheme + h
	}
	return strings.Join(urls, ",")
}
