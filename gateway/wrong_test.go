package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/access"
)

// Wrong keys are counted by the address that they come from, and by no other; of
// addresses there is a bound.
func TestWrongKeysOfAddresses(t *testing.T) {
	var k wrongKeys
	why := errors.New("wrong")
	for i := range 2 * wrongBurst {
		err := k.refuse(fmt.Sprint("10.0.0.1:", 1000+i), why)
		if i < wrongBurst != errors.Is(err, why) && i != wrongBurst { // one may have come back by then
			t.Fatalf("%d: %v", i, err)
		}
		if err := k.refuse("10.0.0.2", why); i < 5 && !errors.Is(err, why) { // without a port
			t.Errorf("another address: %v", err)
		}
	}
	if err := k.refuse("10.0.0.1:1", why); errors.Is(err, why) {
		t.Error("the other address made it begin anew")
	}
	for i := range 2 * wrongAddresses {
		if err := k.refuse(fmt.Sprintf("10.1.%d.%d:1", i/256, i%256), why); !errors.Is(err, why) {
			t.Fatalf("a new address: %v", err)
		}
		if len(k.from) > wrongAddresses {
			t.Fatalf("%d addresses", len(k.from))
		}
	}
}

// No secret is none of a gateway without a token, and its token counts on its own machine
// alone.
func TestTokenAlone(t *testing.T) {
	from := func(ip string) *http.Request {
		r, err := http.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip)}), http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	secret := strings.Repeat("x", minToken)
	for _, tt := range []struct{ token, given, to, want string }{
		{"", "", "127.0.0.1", ""},
		{secret, "", "127.0.0.1", ""},
		{secret, secret, "127.0.0.1", access.Token.Name},
		{secret, secret, "::1", access.Token.Name},
		{secret, secret, "10.0.0.1", ""},
		{secret, secret[1:], "127.0.0.1", ""},
	} {
		s := &Server{cfg: Config{Token: tt.token}}
		g, err := s.grantOf(from(tt.to), tt.given)
		if tt.want == "" && (g != nil || !errors.Is(err, api.ErrUnauthorized)) || tt.want != "" && (err != nil || g.Name != tt.want) {
			t.Errorf("%+v: %+v, %v", tt, g, err)
		}
	}
}

// A key in the header counts, and not the cookie beside it.
func TestKeyBesideCookie(t *testing.T) {
	g, keys := newConsoleRig(t)
	viewer := g.key(keys, api.NewKey{Name: "viewer", Role: "viewer"})
	admin := g.signIn(g.key(keys, api.NewKey{Name: "admin", Role: "admin"}))
	admin.call("GET", "/v1/keys", "").is(200)
	admin.call("GET", "/v1/keys", "", "Authorization", "Bearer "+viewer).is(403)
	admin.call("GET", "/v1/keys", "", "Authorization", "Bearer wrong").is(401)
}
