package pairing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

func token(t testing.TB, r *Registry, uses int) (string, Token) {
	t.Helper()
	secret, tok, err := r.NewToken(time.Hour, uses, map[string]string{"fleet": "x"}, "anna")
	ok(t, err)
	return secret, tok
}

func proof(t testing.TB, secret string, n int) string {
	t.Helper()
	p, err := Proof(secret, key(n), gateway)
	ok(t, err)
	return p
}

func TestToken(t *testing.T) {
	dir := newDir(t)
	r := open(t, dir)
	secret, tok := token(t, r, 2)
	if diff := cmp.Diff([]Token{tok}, r.Tokens()); diff != "" || tok.Hash != "" {
		t.Error(tok, diff)
	}
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	ok(t, err)
	random := secret[strings.LastIndex(secret, "-")+1:]
	if p := proof(t, secret, 1); strings.Contains(string(text), random) || strings.Contains(p, random) {
		t.Errorf("the secret %s is in %s or %s", secret, text, p)
	}
	// The key of the HMAC is the SHA-256 of the token, and nothing else.
	sum := sha256.Sum256([]byte(secret))
	mac := hmac.New(sha256.New, sum[:])
	mac.Write([]byte("corral setup\n" + key(1) + "\n" + gateway))
	if want := tok.ID + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)); want != proof(t, secret, 1) {
		t.Errorf("the proof is %s, want %s", proof(t, secret, 1), want)
	}

	ask(t, r, 1, "web") // it asked before
	n, err := r.Redeem(proof(t, secret, 1), key(1), home, Hello{Name: "web", OS: "linux"})
	ok(t, err)
	if n.Name != "web" || n.ApprovedBy != "token "+tok.ID+" of anna" || n.Labels["fleet"] != "x" || n.OS != "linux" || len(r.Requests()) != 0 {
		t.Errorf("%+v, %v", n, r.Requests())
	}
	ok(t, r.Close())
	r = open(t, dir)
	again, err := r.Redeem(proof(t, secret, 1), key(1), home, Hello{}) // its answer was lost
	if diff := cmp.Diff(n, again); err != nil || diff != "" || r.Tokens()[0].Left != 1 {
		t.Error(err, diff, r.Tokens())
	}
	_, err = r.Redeem(proof(t, secret, 1), key(2), home, Hello{}) // what another one sent
	wantKind(t, err, corral.ErrDenied)
	_, err = r.Redeem(proof(t, secret, 2), key(2), home, Hello{Name: "web"})
	ok(t, err)
	_, err = r.Redeem(proof(t, secret, 3), key(3), home, Hello{})
	wantKind(t, err, corral.ErrDenied, "used")
	wantAuthorised(t, r, 1, 2)

	// No token pairs a key that was revoked.
	_, err = r.Revoke(n.ID, "anna")
	ok(t, err)
	secret, tok = token(t, r, 1)
	_, err = r.Redeem(proof(t, secret, 1), key(1), home, Hello{})
	wantKind(t, err, corral.ErrDenied, "revoked")
	if left := r.Tokens(); len(left) != 1 || left[0].Left != 1 {
		t.Errorf("%+v", left)
	}
	ok(t, r.Withdraw(tok.ID))
	wantKind(t, r.Withdraw(tok.ID), corral.ErrNotFound)
	_, err = r.Redeem(proof(t, secret, 3), key(3), home, Hello{})
	wantKind(t, err, corral.ErrDenied, "withdrawn")
	wantAuthorised(t, r, 2)
}

func TestTokenExpires(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir)
		secret, _ := token(t, r, 5)
		time.Sleep(time.Hour - time.Second)
		_, err := r.Redeem(proof(t, secret, 1), key(1), home, Hello{})
		ok(t, err)
		time.Sleep(time.Second)
		_, err = r.Redeem(proof(t, secret, 2), key(2), home, Hello{})
		wantKind(t, err, corral.ErrDenied, "expired")
		if len(r.Tokens()) != 0 {
			t.Errorf("%+v", r.Tokens())
		}
		token(t, r, 1) // those that have expired go
		if n := len(r.now.Load().tokens); n != 1 {
			t.Errorf("%d tokens are kept", n)
		}
		wantAuthorised(t, r, 1)
	})
}

func TestBadProofs(t *testing.T) {
	r := open(t, newDir(t))
	secret, tok := token(t, r, 1)
	other := keyOf(20<<3, 9)
	good := proof(t, secret, 1)
	elsewhere, err := Proof(secret, key(1), other)
	ok(t, err)
	wrong, err := Proof(tokenPrefix+tok.ID+"-"+strings.Repeat("0", secretLength), key(1), gateway)
	ok(t, err)
	unknown, err := Proof(tokenPrefix+"00000000-"+strings.Repeat("0", secretLength), key(1), gateway)
	ok(t, err)
	bad := []string{"", ".", tok.ID, tok.ID + ".", secret, elsewhere, wrong, unknown, good + "A", good[:len(good)-1], " " + good, good + "\n",
		tok.ID + "." + strings.Repeat("A", 43), strings.Repeat("x", 1<<20)}
	// The last character says 4 bits, and could have others.
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(digits, good[len(good)-1])
	bad = append(bad, good[:len(good)-1]+digits[last+1:last+2])
	for i := range good {
		b := []byte(good)
		b[i] ^= 1
		bad = append(bad, string(b))
	}
	for _, p := range bad {
		_, err := r.Redeem(p, key(1), home, Hello{})
		wantKind(t, err, corral.ErrDenied)
	}
	for _, s := range []string{"", secret[1:], secret + "0", secret[:len(secret)-1], strings.ToUpper(secret), strings.Replace(secret, "-", "", 1)} {
		_, err := Proof(s, key(1), gateway)
		wantKind(t, err, corral.ErrInvalid)
		if len(s) > 20 && strings.Contains(err.Error(), s[16:]) {
			t.Errorf("the error has the secret: %v", err)
		}
	}
	for _, uses := range []int{-1, 0, MaxUses + 1} {
		_, _, err := r.NewToken(time.Hour, uses, nil, "")
		wantKind(t, err, corral.ErrInvalid)
	}
	for _, ttl := range []time.Duration{-1, 0, time.Millisecond, MaxTokenAge + 1} {
		_, _, err := r.NewToken(ttl, 1, nil, "")
		wantKind(t, err, corral.ErrInvalid)
	}
	wantAuthorised(t, r)
	_, err = r.Redeem(good, key(1), home, Hello{})
	ok(t, err)
}

// One of a hundred keys gets the one use of a token.
func TestManyRedeem(t *testing.T) {
	dir := newDir(t)
	r := open(t, dir)
	secret, _ := token(t, r, 1)
	var all sync.WaitGroup
	var won atomic.Int32
	for i := range 100 {
		p := proof(t, secret, i)
		all.Go(func() {
			_, err := r.Redeem(p, key(i), home, Hello{Name: "n"})
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, corral.ErrDenied) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	paired := authorised(r, 100)
	ok(t, r.Close())
	r = open(t, dir)
	if after := authorised(r, 100); won.Load() != 1 || len(paired) != 1 || len(after) != 1 || after[0] != paired[0] || len(r.Tokens()) != 0 {
		t.Errorf("%d won; nodes are %v, and then %v; tokens %v", won.Load(), paired, after, r.Tokens())
	}
}
