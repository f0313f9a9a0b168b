package pairing

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/journal"
)

// sample is a file with a bit of everything.
func sample(t testing.TB) []byte {
	dir := newDir(t)
	r := open(t, dir)
	for n := range 2 {
		pair(t, r, n, "ünï <&> \"x\"")
	}
	_, err := r.Revoke(ID(key(1)), "ben")
	ok(t, err)
	token(t, r, 1)
	token(t, r, 3)
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	ok(t, err)
	return text
}

func openWith(t testing.TB, text []byte) (*Registry, error) {
	t.Helper()
	dir := newDir(t)
	ok(t, os.Mkdir(dir, 0o700))
	ok(t, os.WriteFile(filepath.Join(dir, fileName), text, 0o600))
	return Open(Options{Dir: dir, GatewayKey: gateway})
}

// A file that is not all there is not read.
func TestCutAtEveryByte(t *testing.T) {
	text := sample(t)
	for n := range text {
		if _, err := parse(text[:n]); err == nil {
			t.Fatalf("cut to %d of %d bytes it is read", n, len(text))
		}
	}
	if _, err := parse(text); err != nil {
		t.Fatal(err)
	}
	_, err := openWith(t, nil)
	wantKind(t, err, corral.ErrUnavailable, fileName+":1 (byte 0)", "cut short")
}

// A file in which any byte is another one is not read.
func TestDamageAtEveryByte(t *testing.T) {
	text := sample(t)
	for i := range text {
		for _, b := range []byte{text[i] ^ 1<<(i%8), text[i] ^ 0x20, []byte("\x00\n \"9")[i%5]} {
			damaged := bytes.Clone(text)
			if damaged[i] = b; b == text[i] {
				continue
			}
			if _, err := parse(damaged); err == nil {
				t.Fatalf("with byte %d %q in place of %q it is read", i, b, text[i])
			}
		}
		if _, err := parse(slices.Delete(bytes.Clone(text), i, i+1)); err == nil {
			t.Fatalf("without byte %d (%q) it is read", i, text[i])
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1]
	join := func(l ...[]byte) []byte { return bytes.Join(l, nil) }
	for i := range lines {
		for name, damaged := range map[string][]byte{
			"removed": join(slices.Delete(slices.Clone(lines), i, i+1)...),
			"twice":   join(slices.Insert(slices.Clone(lines), i, lines[i])...),
			"at end":  join(append(slices.Clone(lines), lines[i])...),
			"first":   join(append([][]byte{lines[i]}, slices.Delete(slices.Clone(lines), i, i+1)...)...),
		} {
			if _, err := parse(damaged); err == nil && !bytes.Equal(damaged, text) {
				t.Errorf("with line %d %s it is read", i+1, name)
			}
		}
	}
	damaged := bytes.Replace(text, []byte(`"revokedBy":"ben"`), []byte(`"revokedBy":"bob"`), 1)
	at := bytes.LastIndexByte(damaged[:bytes.Index(damaged, []byte("bob"))], '\n') + 1
	number := bytes.Count(damaged[:at], []byte("\n")) + 1
	r, err := openWith(t, damaged)
	wantKind(t, err, corral.ErrUnavailable, fmt.Sprintf("%s:%d (byte %d): ", fileName, number, at), "checksum")
	if corral.Hint(err) == "" {
		t.Error("no hint")
	}
	if _, is := r.Authorize(key(0)); is {
		t.Error("it is a node")
	}
}

// What has the right checksums is checked nevertheless.
func TestSealedNonsense(t *testing.T) {
	node := func(n int, change func(*Node)) *Node {
		x := &Node{ID: ID(key(n)), Key: key(n), Name: fmt.Sprint("n", n), PairedAt: wall(time.Now()), ApprovedBy: "a"}
		if change != nil {
			change(x)
		}
		return x
	}
	tok := func(change func(*Token)) *Token {
		x := &Token{ID: "00000000", Hash: strings.Repeat("0", 64), Left: 1, CreatedAt: wall(time.Now()), ExpiresAt: wall(time.Now().Add(time.Hour))}
		if change != nil {
			change(x)
		}
		return x
	}
	file := func(entries ...any) (text []byte) {
		for _, e := range entries {
			line, err := journal.Seal(e)
			ok(t, err)
			text = append(text, line...)
		}
		return text
	}
	rejected := func(change func(*rejection)) *rejection {
		x := &rejection{Key: key(1), Name: "n1", By: "a", At: wall(time.Now()), Until: wall(time.Now().Add(time.Hour))}
		if change != nil {
			change(x)
		}
		return x
	}
	one, of1, no1 := header{1, 1, 0, 0}, header{1, 0, 1, 0}, header{1, 0, 0, 1}
	if _, err := parse(file(no1, rejected(nil))); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(file(one, node(1, nil))); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(file(of1, tok(nil))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"newer":          file(header{2, 0, 0, 0}),
		"negative":       file(header{1, -1, 0, 0}),
		"many":           file(header{1, maxNodes + 1, 0, 0}),
		"other id":       file(one, node(1, func(n *Node) { n.ID = ID(key(2)) })),
		"no key":         file(one, node(1, func(n *Node) { n.Key, n.ID = "x", ID("x") })),
		"bad name":       file(one, node(1, func(n *Node) { n.Name = "A" })),
		"same name":      sorted(file, header{1, 2, 0, 0}, node(1, nil), node(2, func(n *Node) { n.Name = "n1" })),
		"node twice":     file(header{1, 2, 0, 0}, node(1, func(n *Node) { n.RevokedAt = n.PairedAt }), node(1, nil)),
		"token twice":    file(header{1, 0, 2, 0}, tok(nil), tok(nil)),
		"text":           file(one, node(1, func(n *Node) { n.OS = "\x1b" })),
		"address":        file(one, node(1, func(n *Node) { n.Addresses = []string{"x"} })),
		"labels":         file(one, node(1, func(n *Node) { n.Labels = map[string]string{"": ""} })),
		"never":          file(one, node(1, func(n *Node) { n.PairedAt = time.Time{} })),
		"token of none":  file(of1, tok(func(t *Token) { t.Left = 0 })),
		"token of many":  file(of1, tok(func(t *Token) { t.Left = MaxUses + 1 })),
		"token no hash":  file(of1, tok(func(t *Token) { t.Hash = "" })),
		"token id":       file(of1, tok(func(t *Token) { t.ID = "x" })),
		"token in time":  file(of1, tok(func(t *Token) { t.ExpiresAt = t.CreatedAt })),
		"token for node": file(one, tok(nil)),
		"rejected twice": file(header{1, 0, 0, 2}, rejected(nil), rejected(nil)),
		"rejected many":  file(header{1, 0, 0, maxRejections + 1}),
		"rejected less":  file(header{1, 0, 0, -1}),
		"rejected key":   file(no1, rejected(func(x *rejection) { x.Key = "x" })),
		"rejected never": file(no1, rejected(func(x *rejection) { x.Until = x.At })),
		"rejected name":  file(no1, rejected(func(x *rejection) { x.Name = "A" })),
		"rejected by":    file(no1, rejected(func(x *rejection) { x.By = "\x1b" })),
		"more fields":    file(one, map[string]any{"id": ID(key(1))}),
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// sorted makes a file with two nodes in the order of their ids.
func sorted(file func(...any) []byte, h header, a, b *Node) []byte {
	if a.ID > b.ID {
		a, b = b, a
	}
	return file(h, a, b)
}

// Killed after whichever byte of a change it had written, a registry is what it
// was before the change: the next one finds the old file, and a part of the new
// one beside it. Once that is in its place all of it is there.
func TestKilledAtEveryByte(t *testing.T) {
	dir := newDir(t)
	r := open(t, dir, quick)
	read := func() []byte {
		text, err := os.ReadFile(filepath.Join(dir, fileName))
		if !errors.Is(err, fs.ErrNotExist) {
			ok(t, err)
		}
		return text
	}
	secret, _ := token(t, r, 1)
	pair(t, r, 0, "a")
	for name, change := range map[string]func() error{
		"approve": func() error { pair(t, r, 1, "b"); return nil },
		"redeem":  func() error { _, err := r.Redeem(proof(t, secret, 2), key(2), home, Hello{}); return err },
		"revoke":  func() error { _, err := r.Revoke("a", "x"); return err },
	} {
		before, was := read(), authorised(r, 5)
		ok(t, change())
		after, is := read(), authorised(r, 5)
		if bytes.Equal(before, after) {
			t.Fatalf("%s changed nothing", name)
		}
		there := newDir(t)
		ok(t, os.Mkdir(there, 0o700))
		find := func(text []byte, want []int) {
			t.Helper()
			ok(t, os.WriteFile(filepath.Join(there, fileName), text, 0o600))
			r2 := open(t, there, quick)
			if got := authorised(r2, 5); !slices.Equal(got, want) {
				t.Fatalf("%s: nodes are %v, want %v", name, got, want)
			}
			ok(t, r2.Close())
		}
		for n := range len(after) + 1 {
			ok(t, os.WriteFile(filepath.Join(there, newName), after[:n], 0o600))
			find(before, was)
		}
		// What was left does not hinder the next change.
		r2 := open(t, there, quick)
		pair(t, r2, 4, "d")
		ok(t, r2.Close())
		find(after, is)
	}
}

func FuzzParse(f *testing.F) {
	text := sample(f)
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add(text[:bytes.IndexByte(text, '\n')+1])
	empty, err := newState().encode()
	ok(f, err)
	f.Add(empty)
	f.Add([]byte("null\n"))
	f.Add([]byte(`{"crc32c":"00000000","entry":{"version":1}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parse(text)
		if err != nil {
			return
		}
		again, err := s.encode()
		ok(t, err)
		if !bytes.Equal(again, text) {
			t.Fatalf("read:\n%s\nwritten:\n%s", text, again)
		}
	})
}

// FuzzEntry has the checksums right, so that what is behind them is met.
func FuzzEntry(f *testing.F) {
	for line := range bytes.Lines(sample(f)) {
		_, entry, _ := bytes.Cut(line, []byte(`"entry":`))
		f.Add(bytes.TrimSuffix(entry, []byte("}\n")))
	}
	f.Fuzz(func(t *testing.T, entry []byte) {
		var n Node
		var line []byte
		for _, h := range []header{{1, 1, 0, 0}, {1, 0, 1, 0}, {1, 0, 0, 1}} {
			head, err := journal.Seal(h)
			ok(t, err)
			line = fmt.Appendf(nil, `{"crc32c":"%s","entry":%s}`+"\n", journal.Sum(entry), entry)
			s, err := parse(append(head, line...))
			if err != nil {
				continue
			}
			for key, id := range s.active {
				if n = *s.nodes[id]; n.Key != key || ID(key) != id || ValidateKey(key) != nil || validateName(n.Name) != nil {
					t.Fatalf("%+v", n)
				}
			}
			if again, err := s.encode(); err != nil || !bytes.Equal(again, append(head, line...)) {
				t.Fatalf("read %s, written %s, %v", line, again, err)
			}
		}
	})
}

// The model: which keys were approved and not revoked since, and how often a
// token may still be used.
func TestModel(t *testing.T) {
	base := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		dir := filepath.Join(base, fmt.Sprint(run))
		type model struct{ paired, revoked bool }
		keys := map[int]*model{}
		for n := range 5 {
			keys[n] = &model{}
		}
		pending, rejected, known := map[int]bool{}, map[int]bool{}, map[int]bool{}
		tokens, cutOff := map[string]int{}, map[string]bool{}
		reopen := func() *Registry {
			r, err := Open(Options{Dir: dir, GatewayKey: gateway, unsynced: true, code: quickCode, Changed: func(c Change) {
				if c.Event == EventRevoked {
					cutOff[c.Key] = true
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := reopen()
		defer func() { _ = r.Close() }()
		some := func() int { return rapid.IntRange(0, 4).Draw(t, "key") }
		name := func() string { return rapid.SampledFrom([]string{"", "a", "A", "b", "10.0.0.1"}).Draw(t, "name") }
		expect := func(what string, err error, want bool) {
			if (err == nil) != want {
				t.Fatalf("%s: %v, and it should work: %t", what, err, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(*rapid.T) {
				n := some()
				q, err := r.Ask(key(n), home, Hello{Name: name()})
				expect("ask", err, true)
				want := Pending
				switch {
				case keys[n].paired:
					want = Approved
				case rejected[n]:
					want = Rejected
				default:
					pending[n], known[n] = true, true
				}
				if q.State != want {
					t.Fatalf("it is %s, want %s", q.State, want)
				}
			},
			"approve": func(*rapid.T) {
				n := some()
				// The same answer again changes nothing, as long as the request is known.
				_, err := r.Approve(ID(key(n)), Approval{By: "x"})
				expect("approve", err, pending[n] || known[n] && keys[n].paired)
				if pending[n] {
					*keys[n] = model{paired: true}
					delete(pending, n)
				}
			},
			"reject": func(*rapid.T) {
				n := some()
				expect("reject", r.Reject(key(n), "x"), pending[n])
				if pending[n] {
					delete(pending, n)
					rejected[n] = true
				}
			},
			"revoke": func(*rapid.T) {
				n := some()
				delete(cutOff, key(n))
				_, err := r.Revoke(ID(key(n)), "x")
				expect("revoke", err, keys[n].paired || keys[n].revoked)
				if cutOff[key(n)] != keys[n].paired {
					t.Fatalf("cut off: %t", cutOff[key(n)])
				}
				if keys[n].paired {
					*keys[n] = model{revoked: true}
				}
			},
			"forget": func(*rapid.T) {
				n := some()
				expect("forget", r.Forget(key(n)), keys[n].revoked)
				keys[n].revoked = false
			},
			"token": func(*rapid.T) {
				uses := rapid.IntRange(1, 2).Draw(t, "uses")
				secret, _, err := r.NewToken(time.Hour, uses, nil, "x")
				expect("token", err, true)
				tokens[secret] = uses
			},
			"redeem": func(*rapid.T) {
				if len(tokens) == 0 {
					return
				}
				n, i := some(), rapid.IntRange(0, len(tokens)-1).Draw(t, "token")
				secret := slices.Sorted(maps.Keys(tokens))[i]
				p, err := Proof(secret, key(n), gateway)
				expect("proof", err, true)
				_, err = r.Redeem(p, key(n), netip.Addr{}, Hello{Name: name()})
				expect("redeem", err, keys[n].paired || tokens[secret] > 0 && !keys[n].revoked)
				if err == nil && !keys[n].paired {
					tokens[secret]--
					*keys[n] = model{paired: true}
					delete(pending, n)
					delete(known, n)
					delete(rejected, n)
				}
			},
			"seen":   func(*rapid.T) { expect("seen", r.Seen(key(some()), home, Hello{Version: name()}), true) },
			"rename": func(*rapid.T) { _, _ = r.Rename(ID(key(some())), suggested(name())) },
			"restart": func(*rapid.T) {
				before := r.Nodes()
				expect("close", r.Close(), true)
				r = reopen()
				if diff := cmp.Diff(before, r.Nodes()); diff != "" {
					t.Fatal(diff)
				}
				clear(pending)
				clear(known)
			},
			"": func(*rapid.T) {
				names, nodes := map[string]bool{}, 0
				for n, m := range keys {
					id, is := r.Authorize(key(n))
					if is != m.paired || is && id != ID(key(n)) {
						t.Fatalf("key %d is node %q: %t, want %t", n, id, is, m.paired)
					}
					if m.paired || m.revoked {
						nodes++
					}
				}
				all := r.Nodes()
				for _, n := range all {
					if n.active() && names[n.Name] {
						t.Fatalf("two nodes have the name %s", n.Name)
					}
					names[n.Name] = names[n.Name] || n.active()
				}
				if len(all) != nodes {
					t.Fatalf("%d nodes, want %d", len(all), nodes)
				}
			},
		})
	})
}
