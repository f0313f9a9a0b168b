package access

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/test/damagetest"
	"github.com/corral-exec/corral/internal/test/testdir"
)

func TestSignIns(t *testing.T) {
	path := filepath.Join(testdir.New(t), "console.json")
	s, err := OpenSignIns(path)
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.Begin("owner")
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Begin("abc")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), in.Cookie) || strings.Contains(string(data), in.Token) {
		t.Errorf("the file has a secret: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	again, err := OpenSignIns(path)
	if err != nil {
		t.Fatal(err)
	}
	for life, s := range []*SignIns{s, again} {
		for _, tt := range []struct {
			cookie, token string
			page          bool
			want          string // empty: refused
		}{
			{in.Cookie, in.Token, true, "owner"},
			{other.Cookie, other.Token, true, "abc"},
			{in.Cookie, "", false, "owner"},
			{in.Cookie, "", true, ""},
			{in.Cookie, other.Token, true, ""},
			{in.Token, in.Token, true, ""},
			{"", "", false, ""},
		} {
			ref, err := s.Check(tt.cookie, tt.token, tt.page)
			if ref != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, api.ErrUnauthorized) {
				t.Errorf("life %d: %+v: %q, %v", life, tt, ref, err)
			}
		}
	}
	if err := s.End(in.Cookie); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(in.Cookie, in.Token, true); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("signed out: %v", err)
	}
	if ref, err := s.Check(other.Cookie, other.Token, true); ref != "abc" || err != nil {
		t.Errorf("the other: %q, %v", ref, err)
	}
}

func TestSignInsEnd(t *testing.T) {
	path := filepath.Join(testdir.New(t), "console.json")
	synctest.Test(t, func(t *testing.T) {
		s, err := OpenSignIns(path)
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.Begin("owner")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(SignInTTL - time.Minute)
		if _, err := s.Check(in.Cookie, in.Token, true); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if _, err := s.Check(in.Cookie, in.Token, true); !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("expired: %v", err)
		}

		secret, _, err := s.Link("owner")
		if err != nil || !IsLink(secret) {
			t.Fatal(secret, err)
		}
		if ref, err := s.Redeem(secret); ref != "owner" || err != nil {
			t.Errorf("%q, %v", ref, err)
		}
		late, _, _ := s.Link("owner")
		time.Sleep(LinkTTL)
		for what, secret := range map[string]string{"used": secret, "late": late, "none": linkPrefix, "a cookie": in.Cookie} {
			if _, err := s.Redeem(secret); !errors.Is(err, api.ErrUnauthorized) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for range maxLinks {
			if _, _, err := s.Link("owner"); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.Link("owner"); err == nil {
			t.Error("links have no bound")
		}
	})
}

// The oldest of who has most make room. A file with any bit changed signs no one in.
func TestSignInsBounds(t *testing.T) {
	path := filepath.Join(testdir.New(t), "console.json")
	s, err := OpenSignIns(path)
	if err != nil {
		t.Fatal(err)
	}
	others, _ := s.Begin("another key")
	first, _ := s.Begin("owner")
	for range maxSignIns {
		s.list = append(s.list, signIn{Ref: "owner", Expires: time.Now().Add(time.Hour)})
	}
	last, err := s.Begin("owner")
	if err != nil || len(s.list) != maxSignIns {
		t.Fatalf("%d are kept, %v", len(s.list), err)
	}
	if _, err := s.Check(first.Cookie, first.Token, true); err == nil {
		t.Error("the oldest is kept")
	}
	if _, err := s.Check(others.Cookie, others.Token, true); err != nil {
		t.Errorf("another key's is not kept: %v", err)
	}
	if err := s.write([]signIn{s.list[maxSignIns-1]}); err != nil {
		t.Fatal(err)
	}
	same := func(a, b []signIn) bool { return len(a) == len(b) && (len(a) == 0 || a[0] == b[0]) }
	damagetest.File(t, path, "console.json", same, func() ([]signIn, error) {
		s, err := OpenSignIns(path)
		if err != nil {
			if _, err := s.Check(last.Cookie, last.Token, true); err == nil {
				t.Error("a damaged file signs somebody in")
			}
			return nil, err
		}
		return s.list, nil
	})
}
