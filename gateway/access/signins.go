package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/journal"
)

// Bounds of sign-ins.
const (
	SignInTTL  = 7 * 24 * time.Hour
	LinkTTL    = time.Minute
	maxSignIns = 1000
	maxLinks   = 100
)

// SignIns are the browsers that are signed in to the console. A browser shows two secrets
// that no page of another origin has both of: a cookie, and a token that only the
// console's own pages can read. A sign-in is for a Grant, by its Ref, and ends with it.
//
// They are kept in a file, as hashes, so that a browser stays signed in when the gateway
// is started anew.
type SignIns struct {
	path string

	mu    sync.Mutex
	list  []signIn // the oldest first
	links map[string]link
	alive map[string]alive // of sign-ins by which something is open, by the hash of the cookie
}

// An alive is a context that ends with a sign-in.
type alive struct {
	ctx context.Context
	end context.CancelFunc
}

type signIn struct {
	Cookie  string    `json:"cookie"` // SHA-256 of it, in hexadecimal
	Token   string    `json:"token"`  // SHA-256 of it
	Ref     string    `json:"ref"`
	Expires time.Time `json:"expiresAt"`
}

type link struct {
	ref     string
	expires time.Time
}

// SignedIn is a sign-in that was made, with its secrets.
type SignedIn struct {
	Cookie, Token string
	Expires       time.Time
}

// OpenSignIns opens the sign-ins in a file. There need not be one. A file that cannot be
// read is an error beside SignIns that has none: everybody can sign in again.
func OpenSignIns(path string) (*SignIns, error) {
	s := &SignIns{path: path, links: map[string]link{}, alive: map[string]alive{}}
	err := s.read()
	if err != nil {
		s.list = nil
		err = corral.Errorf(corral.ErrUnavailable, "sign in again", "cannot read who is signed in to the console, in %s: %w", path, err)
	}
	return s, err
}

func (s *SignIns) read() error {
	data, err := content(s.path)
	if data == nil {
		return err
	}
	return journal.Unseal(data, &s.list)
}

var (
	errSignedOut = corral.Errorf(api.ErrUnauthorized, "sign in again, at /console/", "the browser is not signed in, or no longer")
	errPage      = corral.Errorf(api.ErrUnauthorized, "reload the page, or sign in again", "the request has the console's cookie, and not its token: it is not from a page of the console")
	errLink      = corral.Errorf(api.ErrUnauthorized, "make another on the gateway's machine: corral console", "the link was used, or is older than a minute")
)

// Begin signs a browser in for the Grant that Ref names.
func (s *SignIns) Begin(ref string) (SignedIn, error) {
	in := SignedIn{Cookie: rand.Text() + rand.Text(), Token: rand.Text() + rand.Text(), Expires: time.Now().Add(SignInTTL).UTC().Truncate(time.Second)}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := withRoom(s.current())
	return in, s.write(append(list, signIn{hash(in.Cookie), hash(in.Token), ref, in.Expires}))
}

// withRoom is a list, the oldest first, with room for one more. In a full list the Ref with
// the most sign-ins loses its oldest: no key signs the browsers of others out.
func withRoom(list []signIn) []signIn {
	for len(list) >= maxSignIns {
		n, largest := map[string]int{}, ""
		for _, in := range list {
			if n[in.Ref]++; n[in.Ref] > n[largest] {
				largest = in.Ref
			}
		}
		at := slices.IndexFunc(list, func(in signIn) bool { return in.Ref == largest })
		list = slices.Delete(list, at, at+1)
	}
	return list
}

// Check returns the Ref of a cookie's sign-in. Without page the token is not looked at.
func (s *SignIns) Check(cookie, token string, page bool) (ref string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(cookie)
	if at < 0 {
		return "", errSignedOut
	}
	in := s.list[at]
	if page && subtle.ConstantTimeCompare([]byte(hash(token)), []byte(in.Token)) != 1 {
		return "", errPage
	}
	return in.Ref, nil
}

// End signs a browser out.
func (s *SignIns) End(cookie string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(cookie)
	if at < 0 {
		return nil
	}
	return s.write(slices.Delete(slices.Clone(s.list), at, at+1))
}

// Alive is a context that ends when the sign-in of a cookie does. If there is none it has
// ended.
func (s *SignIns) Alive(cookie string) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(cookie)
	if at < 0 {
		ctx, end := context.WithCancel(context.Background())
		end()
		return ctx
	}
	in := s.list[at]
	a, ok := s.alive[in.Cookie]
	if !ok {
		a.ctx, a.end = context.WithDeadline(context.Background(), in.Expires)
		s.alive[in.Cookie] = a
	}
	return a.ctx
}

// Close ends the contexts of all sign-ins, which stay.
func (s *SignIns) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cookie, a := range s.alive {
		a.end()
		delete(s.alive, cookie)
	}
}

// find is where the sign-in of a cookie is; -1: there is none. mu is held.
func (s *SignIns) find(cookie string) int {
	want, now := hash(cookie), time.Now()
	return slices.IndexFunc(s.list, func(in signIn) bool { return in.Cookie == want && now.Before(in.Expires) })
}

// current are those that have not expired. mu is held.
func (s *SignIns) current() []signIn {
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(s.list), func(in signIn) bool { return !now.Before(in.Expires) })
}

// write keeps a list. mu is held.
func (s *SignIns) write(list []signIn) error {
	data, err := journal.Seal(list)
	if err == nil {
		err = atomicfile.Write(s.path, data, atomicfile.Options{})
	}
	if err != nil {
		return corral.Errorf(corral.ErrUnavailable, "see whether the disk is full; nothing was changed", "cannot write who is signed in to %s: %w", s.path, err)
	}
	s.list = list
	for cookie, a := range s.alive {
		if !slices.ContainsFunc(list, func(in signIn) bool { return in.Cookie == cookie }) {
			a.end()
			delete(s.alive, cookie)
		}
	}
	return nil
}

// linkPrefix begins the secret of a link.
const linkPrefix = "corrallink_"

// IsLink reports whether a text was meant to be the secret of a link.
func IsLink(text string) bool { return strings.HasPrefix(text, linkPrefix) }

// Link makes a secret with which a browser can be signed in once, within LinkTTL, for the
// Grant that Ref names.
func (s *SignIns) Link(ref string) (secret string, expires time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.links, func(_ string, l link) bool { return !now.Before(l.expires) })
	if len(s.links) >= maxLinks {
		return "", time.Time{}, corral.Errorf(corral.ErrUnavailable, "try again in a minute", "there are %d links that were not used", len(s.links))
	}
	secret, expires = linkPrefix+rand.Text()+rand.Text(), now.Add(LinkTTL)
	s.links[hash(secret)] = link{ref, expires}
	return secret, expires, nil
}

// Redeem uses a link up.
func (s *SignIns) Redeem(secret string) (ref string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := hash(secret)
	l := s.links[sum] // of a link that there is not, it has expired
	delete(s.links, sum)
	if !time.Now().Before(l.expires) {
		return "", errLink
	}
	return l.ref, nil
}

// Fingerprint tells a secret from others, and does not give it away.
func Fingerprint(secret string) string { return hash(secret)[:16] }

// Ended says why a Grant is none any more; nil: it is one.
func (g *Grant) Ended() error {
	switch {
	case g == Nothing:
		return errNone
	case g.alive != nil && g.alive.Err() != nil:
		return context.Cause(g.alive)
	case g.expires != nil && !time.Now().Before(*g.expires): // the clock was set, or the machine stood still
		return errExpired
	}
	return nil
}
