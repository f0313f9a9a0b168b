package pairing

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/errtest"
)

// keyOf is the nth key of tests, always the same.
func keyOf(prefix nkeys.PrefixByte, n int) string {
	seed := [32]byte{byte(n), byte(n >> 8), 7}
	pair, err := nkeys.FromRawSeed(prefix, seed[:])
	if err != nil {
		panic(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		panic(err)
	}
	return key
}

func key(n int) string { return keyOf(nkeys.PrefixByteUser, n) }

var (
	gateway = keyOf(nkeys.PrefixByteUser, 60000)
	home    = netip.MustParseAddr("192.0.2.1")
)

var ok, wantKind = errtest.None, errtest.Kind

func newDir(t testing.TB) string { return filepath.Join(t.TempDir(), "nodes") }

func open(t testing.TB, dir string, change ...func(*Options)) *Registry {
	t.Helper()
	opts := Options{Dir: dir, GatewayKey: gateway}
	for _, c := range change {
		c(&opts)
	}
	r, err := Open(opts)
	ok(t, err)
	t.Cleanup(func() { ok(t, r.Close()) })
	return r
}

// quick is for tests that do not depend on what it leaves out.
func quick(o *Options) { o.unsynced, o.code = true, quickCode }

func quickCode(node, gateway string) string { return ID(node + gateway)[:codeLength] }

func ask(t testing.TB, r *Registry, n int, name string) Request {
	t.Helper()
	q, err := r.Ask(key(n), home, Hello{Name: name, OS: "linux", Arch: "amd64"})
	ok(t, err)
	return q
}

func pair(t testing.TB, r *Registry, n int, name string) Node {
	t.Helper()
	node, err := r.Approve(ask(t, r, n, name).Code, Approval{By: "anna"})
	ok(t, err)
	return node
}

// authorised is which of the first keys are nodes.
func authorised(r *Registry, keys int) (list []int) {
	for n := range keys {
		if id, is := r.Authorize(key(n)); is && id == ID(key(n)) {
			list = append(list, n)
		}
	}
	return list
}

func wantAuthorised(t testing.TB, r *Registry, want ...int) {
	t.Helper()
	if got := authorised(r, 20); !slices.Equal(got, want) {
		t.Fatalf("nodes are %v, want %v", got, want)
	}
}

func TestPairing(t *testing.T) {
	dir := newDir(t)
	var changes []Change
	r := open(t, dir, func(o *Options) { o.Changed = func(c Change) { changes = append(changes, c) } })
	hello := Hello{Name: "Build 01.local", OS: "linux", Arch: "arm64", Version: "1.2", Addresses: []string{"10.1.1.1"}, Features: []string{"pty"}}
	q, err := r.Ask(key(1), home, hello)
	ok(t, err)
	if q.State != Pending || q.Name != "build-01.local" || q.SameName != "" || q.From != "192.0.2.1" || q.ID != ID(key(1)) || q.Code != Code(key(1), gateway) {
		t.Errorf("%+v", q)
	}
	wantAuthorised(t, r)
	n, err := r.Approve(strings.ToUpper(q.Code), Approval{By: "anna", Labels: map[string]string{"zone": "a"}})
	ok(t, err)
	want := Node{
		ID: ID(key(1)), Name: "build-01.local", Key: key(1), Labels: map[string]string{"zone": "a"}, Addresses: []string{"192.0.2.1"},
		OS: "linux", Arch: "arm64", Version: "1.2", Features: []string{"pty"}, PairedAt: n.PairedAt, ApprovedBy: "anna",
	}
	if diff := cmp.Diff(want, n); diff != "" || time.Since(n.PairedAt) > time.Minute {
		t.Error(n.PairedAt, diff)
	}
	wantAuthorised(t, r, 1)
	if q, err = r.Ask(key(1), home, hello); err != nil || q.State != Approved || q.ID != n.ID {
		t.Errorf("asked again: %+v, %v", q, err)
	}
	ok(t, r.Seen(key(1), netip.MustParseAddr("::ffff:192.0.2.9"), Hello{Name: "x", OS: "linux", Version: "1.3"}))
	ok(t, r.Seen(key(2), home, Hello{})) // no node
	_, err = r.Rename(n.Name, "builder")
	ok(t, err)
	ok(t, r.Close())
	wantAuthorised(t, r)

	r2 := open(t, dir)
	want.Name, want.Version, want.Arch, want.Features = "builder", "1.3", "", nil
	want.Addresses = []string{"192.0.2.9", "192.0.2.1"}
	for _, ref := range []string{n.ID, n.Key, "builder", n.ID[:4]} {
		got, err := r2.Node(ref)
		ok(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(ref, diff)
		}
	}
	var events []Event
	for _, c := range changes {
		events = append(events, c.Event)
	}
	if !slices.Equal(events, []Event{EventAsked, EventPaired, EventRenamed}) || changes[1].Node.Key != key(1) || changes[0].Request.Code != Code(key(1), gateway) {
		t.Errorf("%+v", changes)
	}
}

// Seen is written by itself.
func TestSeenIsWritten(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir)
		pair(t, r, 1, "a")
		ok(t, r.Seen(key(1), home, Hello{Version: "2"}))
		has := func() bool {
			text, err := os.ReadFile(filepath.Join(dir, fileName))
			ok(t, err)
			return strings.Contains(string(text), `"version":"2"`)
		}
		if has() {
			t.Error("it is written at once")
		}
		time.Sleep(writeDelay)
		synctest.Wait()
		if !has() {
			t.Error("it is not written")
		}
	})
}

func TestRevoke(t *testing.T) {
	dir := newDir(t)
	var cut []string
	var r *Registry
	r = open(t, dir, func(o *Options) {
		o.Changed = func(c Change) {
			if c.Event != EventRevoked {
				return
			}
			if _, is := r.Authorize(c.Key); is {
				t.Error("it is a node when its connections are cut")
			}
			cut = append(cut, c.Key)
		}
	})
	n := pair(t, r, 1, "a")
	pair(t, r, 2, "b")
	wantKind(t, r.Forget("a"), corral.ErrInvalid, "paired")
	gone, err := r.Revoke("a", "ben")
	ok(t, err)
	_, err = r.Revoke(n.ID, "carl") // changes nothing
	ok(t, err)
	if gone.RevokedBy != "ben" || gone.RevokedAt.IsZero() || !slices.Equal(cut, []string{key(1)}) {
		t.Errorf("%+v, cut %v", gone, cut)
	}
	wantAuthorised(t, r, 2)
	ok(t, r.Close())
	r = open(t, dir)
	wantAuthorised(t, r, 2)

	// Its name is free, and the same key is the same node when it is paired again.
	pair(t, r, 3, "a")
	q := ask(t, r, 1, "a")
	if q.State != Pending || q.RevokedAt.IsZero() || q.Name != "a-2" || q.SameName != ID(key(3)) {
		t.Errorf("%+v", q)
	}
	again, err := r.Approve(q.ID, Approval{By: "anna", Name: q.Name})
	ok(t, err)
	if again.ID != n.ID || again.Name != "a-2" || !again.RevokedAt.IsZero() || len(r.Nodes()) != 3 {
		t.Errorf("%+v of %d nodes", again, len(r.Nodes()))
	}
	wantAuthorised(t, r, 1, 2, 3)
	_, err = r.Revoke("a-2", "")
	ok(t, err)
	ok(t, r.Forget("a-2"))
	_, err = r.Node(n.ID)
	wantKind(t, err, corral.ErrNotFound)
}

// A revocation counts at once, also if it cannot be written; an approval does
// not count before it is.
func TestDiskFull(t *testing.T) {
	dir := newDir(t)
	r := open(t, dir)
	pair(t, r, 1, "a")
	q := ask(t, r, 2, "b")
	blocked := filepath.Join(dir, newName)
	ok(t, os.MkdirAll(filepath.Join(blocked, "x"), 0o700)) // cannot be removed, nor written to
	_, err := r.Approve(q.Code, Approval{})
	wantKind(t, err, corral.ErrUnavailable, "cannot write")
	wantAuthorised(t, r, 1)
	_, err = r.Revoke("a", "")
	wantKind(t, err, corral.ErrUnavailable, "not on disk yet")
	wantAuthorised(t, r)
	_, err = r.Revoke("a", "")
	wantKind(t, err, corral.ErrUnavailable)
	ok(t, os.RemoveAll(blocked))
	ok(t, r.Close()) // tries again
	r = open(t, dir)
	wantAuthorised(t, r)
}

// The first of a hundred answers counts, and all others are told so.
func TestManyAnswers(t *testing.T) {
	r := open(t, newDir(t))
	q := ask(t, r, 1, "a")
	var mu sync.Mutex
	var all sync.WaitGroup
	var won []string
	for i := range 100 {
		all.Go(func() {
			var err error
			what := "approved"
			if i%2 == 0 {
				_, err = r.Approve(q.Code, Approval{By: fmt.Sprint("user", i)})
			} else {
				what = "rejected"
				err = r.Reject(q.Code, fmt.Sprint("user", i))
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, fmt.Sprintf("%s by user%d at", what, i))
			} else if !errors.Is(err, corral.ErrConflict) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(won) != 1 {
		t.Fatalf("%d answers counted: %v", len(won), won)
	}
	wantKind(t, r.Reject(q.ID, "late"), corral.ErrConflict, won[0])
	if _, is := r.Authorize(key(1)); is != strings.HasPrefix(won[0], "approved") {
		t.Errorf("%s, and it is a node: %t", won[0], is)
	}
}

func TestRequests(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		r := open(t, dir)
		q := ask(t, r, 1, "a")
		time.Sleep(RequestLimit - time.Minute)
		again := ask(t, r, 1, "b")
		if again.Code != q.Code || !again.AskedAt.Equal(q.AskedAt) || !again.ExpiresAt.After(q.ExpiresAt) || again.Name != "b" || len(r.Requests()) != 1 {
			t.Errorf("%+v", again)
		}
		time.Sleep(RequestLimit - time.Second)
		ok(t, r.Reject(q.Code, "anna"))
		if q := ask(t, r, 1, "c"); q.State != Rejected || q.AnsweredBy != "anna" {
			t.Errorf("%+v", q)
		}
		_, err := r.Approve(q.Code, Approval{})
		wantKind(t, err, corral.ErrConflict, "rejected by anna")
		time.Sleep(RequestLimit)
		_, err = r.Approve(q.Code, Approval{})
		wantKind(t, err, corral.ErrNotFound)
		if q := ask(t, r, 1, "c"); q.State != Pending {
			t.Errorf("%+v", q)
		}
		time.Sleep(RequestLimit)
		_, err = r.Approve(q.Code, Approval{})
		wantKind(t, err, corral.ErrNotFound)
		if list := r.Requests(); len(list) != 0 {
			t.Errorf("%+v", list)
		}
		wantAuthorised(t, r)
	})
}

func TestBounds(t *testing.T) {
	r := open(t, newDir(t), quick)
	from := func(n int, a string) error {
		addr, err := netip.ParseAddr(a)
		if a != "" {
			ok(t, err)
		}
		_, err = r.Ask(key(n), addr, Hello{})
		return err
	}
	for i := range maxPerAddress {
		ok(t, from(i, fmt.Sprintf("2001:db8::%x", i)))
	}
	wantKind(t, from(100, "2001:db8::ffff"), corral.ErrUnavailable, "8 of them from 2001:db8::ffff")
	ok(t, from(1, "2001:db8::1")) // again
	ok(t, r.Reject(ID(key(1)), ""))
	wantKind(t, from(100, "2001:db8::ffff"), corral.ErrUnavailable) // a rejection makes no room
	ok(t, from(100, "2001:db8:0:1::1"))
	_, err := r.Approve(ID(key(2)), Approval{})
	ok(t, err)
	ok(t, from(101, "2001:db8::ffff"))
	for i := len(r.Requests()); i <= maxRequests; i++ {
		ok(t, from(1000+i, ""))
	}
	wantKind(t, from(5000, "192.0.2.77"), corral.ErrUnavailable, "256")
	wantAuthorised(t, r, 2)

	bad := map[string]Hello{
		"long":       {Name: strings.Repeat("x", maxText+1)},
		"escape":     {OS: "\x1b[31m"},
		"two lines":  {Version: "a\nb"},
		"turns text": {Name: "a\u202eb"},
		"no UTF-8":   {Arch: "\xff"},
		"address":    {Addresses: []string{"10.0.0.1:80"}},
		"addresses":  {Addresses: slices.Repeat([]string{"10.0.0.1"}, maxClaimed+1)},
		"features":   {Features: make([]string, maxFeatures+1)},
		"feature":    {Features: []string{"\x00"}},
		"size":       {Features: slices.Repeat([]string{strings.Repeat("x", 200)}, 30)},
	}
	for name, h := range bad {
		_, err := r.Ask(key(3), home, h)
		wantKind(t, err, corral.ErrInvalid)
		_, err = r.Redeem("", key(3), home, h)
		wantKind(t, err, corral.ErrInvalid)
		if err := r.Seen(key(2), home, h); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, labels := range []map[string]string{{"": "x"}, {"a b": ""}, {"a": "\n"}, {strings.Repeat("k", 64): ""}} {
		_, err := r.Approve(ID(key(3)), Approval{Labels: labels})
		wantKind(t, err, corral.ErrInvalid)
	}
	_, err = r.Approve(ID(key(3)), Approval{By: "\x1b"})
	wantKind(t, err, corral.ErrInvalid)
}

func TestNames(t *testing.T) {
	for in, want := range map[string]string{
		"": "node", "web": "web", "WEB 1": "web-1", "ウェブ": "node", "a.b_c-d": "a.b_c-d", "--x--": "x", "a/../b": "a-..-b",
		"10.0.0.1": "node-10.0.0.1", "::1": "1", "0123456789abcdefghjk": "node-0123456789abcdefghjk",
		strings.Repeat("x", 200): strings.Repeat("x", 63), "a\x1b[2Jb": "a-2jb", "fe80::1%eth0": "fe80-1-eth0",
	} {
		got := suggested(in)
		if got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
		ok(t, validateName(got))
	}
	for _, bad := range []string{"", "A", "a b", "-a", "a.", "10.0.0.1", "0123456789abcdefghjk", strings.Repeat("x", 64), "é", "a\n"} {
		wantKind(t, validateName(bad), corral.ErrInvalid)
	}

	r := open(t, newDir(t))
	a := pair(t, r, 1, "web")
	q := ask(t, r, 2, "WEB")
	if q.SameName != a.ID || q.Name != "web-2" || q.State != Pending {
		t.Errorf("%+v", q)
	}
	_, err := r.Approve(q.Code, Approval{Name: "web"})
	wantKind(t, err, corral.ErrConflict, a.ID)
	b := pair(t, r, 2, "WEB")
	if c := pair(t, r, 3, "web"); b.Name != "web-2" || c.Name != "web-3" {
		t.Errorf("%s, %s", b.Name, c.Name)
	}
	_, err = r.Rename("web-2", "web")
	wantKind(t, err, corral.ErrConflict)
	_, err = r.Rename("web-2", a.ID[:5]) // would be taken for a
	wantKind(t, err, corral.ErrConflict)
	if d := pair(t, r, 4, a.ID[:5]); d.Name != a.ID[:5]+"-2" {
		t.Error(d.Name)
	}
	if _, err = r.Rename("web", "web"); err != nil {
		t.Error(err)
	}
	_, err = r.Node("nobody")
	wantKind(t, err, corral.ErrNotFound)
	_, err = r.Node("")
	wantKind(t, err, corral.ErrNotFound)
	long := strings.Repeat("l", 63)
	pair(t, r, 5, long)
	if n := pair(t, r, 6, long); n.Name != long[:61]+"-2" {
		t.Error(n.Name)
	}
}

func TestKeys(t *testing.T) {
	ok(t, ValidateKey(key(1)))
	k := key(1)
	bad := []string{"", "U", k[:55], k + "A", strings.ToLower(k), k[:55] + "\n", "\n" + k, k[:20] + "\n" + k[20:], k[:55] + "0",
		k[:10] + "A" + k[11:], keyOf(nkeys.PrefixByteAccount, 1), strings.Repeat("U", 10000)}
	for _, b := range bad {
		wantKind(t, ValidateKey(b), corral.ErrInvalid)
	}
	ids := map[string]bool{}
	for n := range 1000 {
		id := ID(key(n))
		if !isID(id) || ids[id] {
			t.Fatalf("id %q", id)
		}
		ids[id] = true
	}
	if ID(key(1)) != "13msnm8hasg30mdjkbgc" || Code(key(1), gateway) != "0nt2-fzgk" {
		t.Errorf("ids and codes are others than they were: %s, %s", ID(key(1)), Code(key(1), gateway))
	}
	if Code(key(1), gateway) == Code(key(1), key(2)) || Code(key(1), key(2)) == Code(key(2), key(1)) {
		t.Error("the code does not depend on both keys")
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"7k2m-x0qd", "7k2m-x0qd", true}, {"7k2m-x0qd", "7K2MXOQD", true}, {"7k2m-x0q1", " 7k2m x0ql", true}, {"7k2m-x0qd", "7k2m-x0qe", false},
		{"7k2m-x0qd", "7k2m-x0q", false}, {"", "", false}, {"-", "-", false}, {"7k2m-x0qd", "7k2m-x0qd" + strings.Repeat("-", 100), false},
	} {
		if SameCode(c.a, c.b) != c.same || SameCode(c.b, c.a) != c.same {
			t.Errorf("%q and %q: want %t", c.a, c.b, c.same)
		}
	}
	_, err := Open(Options{Dir: newDir(t), GatewayKey: "x"})
	wantKind(t, err, corral.ErrInvalid)
	if _, is := (*Registry)(nil).Authorize(k); is {
		t.Error("no registry, and it is a node")
	}
}

// One program at a time has the directory, and what others can read or write is
// not relied upon.
func TestAlone(t *testing.T) {
	dir := newDir(t)
	r := open(t, dir)
	_, err := Open(Options{Dir: dir, GatewayKey: gateway})
	wantKind(t, err, corral.ErrConflict, dir)
	pair(t, r, 1, "a")
	for _, name := range []string{fileName, lockName} {
		info, err := os.Stat(filepath.Join(dir, name))
		ok(t, err)
		if info.Mode() != 0o600 {
			t.Errorf("%s: %v", name, info.Mode())
		}
	}
	ok(t, r.Close())
	ok(t, r.Close())
	closed := func() error { _, err := r.Ask(key(2), home, Hello{}); return err }
	wantKind(t, closed(), corral.ErrUnavailable, "closed")

	path := filepath.Join(dir, fileName)
	ok(t, os.Chmod(path, 0o640))
	_, err = Open(Options{Dir: dir, GatewayKey: gateway})
	wantKind(t, err, corral.ErrDenied, fileName, "-rw-r-----")
	ok(t, os.Chmod(path, 0o600))
	ok(t, os.Chmod(dir, 0o770))
	_, err = Open(Options{Dir: dir, GatewayKey: gateway})
	wantKind(t, err, corral.ErrDenied, dir)
	ok(t, os.Chmod(dir, 0o700))
	ok(t, os.Rename(path, path+".real"))
	ok(t, os.Symlink(fileName+".real", path))
	_, err = Open(Options{Dir: dir, GatewayKey: gateway})
	wantKind(t, err, corral.ErrDenied, "regular")
	ok(t, os.Rename(path+".real", path))
	wantAuthorised(t, open(t, dir), 1)
}

func BenchmarkAuthorize(b *testing.B) {
	r := open(b, newDir(b))
	pair(b, r, 1, "a")
	k := key(1)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, is := r.Authorize(k); !is {
				b.Error("it is no node")
			}
		}
	})
}

// Who asks whether a key is that of a node waits for nobody.
func TestAuthorizeTakesNoLock(t *testing.T) {
	r := open(t, newDir(t), quick)
	pair(t, r, 1, "a")
	r.mu.Lock()
	wantAuthorised(t, r, 1)
	if _, err := r.Node("a"); err != nil || len(r.Nodes()) != 1 || len(r.Tokens()) != 0 {
		t.Error(err)
	}
	r.mu.Unlock()

	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if id, is := r.Authorize(key(1)); !is || id != ID(key(1)) {
					t.Error("it is no node")
					return
				}
				r.Nodes()
			}
		})
	}
	for n := 2; n < 20; n++ {
		pair(t, r, n, "a")
		ok(t, r.Seen(key(1), home, Hello{Version: fmt.Sprint(n)}))
		_, err := r.Revoke(key(n), "")
		ok(t, err)
	}
	close(stop)
	all.Wait()
	wantAuthorised(t, r, 1)
}

// Two keys with one code are not told apart by it.
func TestSameCodes(t *testing.T) {
	r := open(t, newDir(t), func(o *Options) { o.code = func(string, string) string { return "0000-0000" } })
	q := ask(t, r, 1, "a")
	ask(t, r, 2, "a")
	_, err := r.Approve(q.Code, Approval{})
	wantKind(t, err, corral.ErrInvalid, "2 keys")
	wantAuthorised(t, r)
	_, err = r.Approve(q.ID, Approval{})
	ok(t, err)
	wantAuthorised(t, r, 1)
	// The code is now that of the one which waits.
	wantKind(t, r.Reject(q.ID, ""), corral.ErrConflict, "approved")
	ok(t, r.Reject(q.Code, ""))
	wantAuthorised(t, r, 1)
}
