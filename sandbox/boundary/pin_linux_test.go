package boundary

import (
	"errors"
	"os"
	"testing"

	"github.com/corral-exec/corral"
)

// What is swapped between the check and the mount is noticed.
func TestPin(t *testing.T) {
	for _, tt := range []struct {
		name string
		swap func(t *testing.T, dir string)
		want error
	}{
		{"nothing", func(*testing.T, string) {}, nil},
		{"its content", func(t *testing.T, dir string) { mkdir(t, dir+"/src/new") }, nil},
		{"a link to elsewhere", func(t *testing.T, dir string) { aside(t, dir); link(t, "/etc", dir+"/src") }, corral.ErrDenied},
		{"a link to itself", func(t *testing.T, dir string) { aside(t, dir); link(t, dir+"/aside", dir+"/src") }, corral.ErrDenied},
		{"another directory", func(t *testing.T, dir string) { aside(t, dir); mkdir(t, dir+"/src") }, corral.ErrDenied},
		{"nothing there", aside, corral.ErrDir},
		{"a link above it", func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+"-moved"); err != nil {
				t.Fatal(err)
			}
			link(t, dir+"-moved", dir)
		}, corral.ErrDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir() + "/top"
			mkdir(t, dir+"/src")
			real, err := Real(dir + "/src")
			if err != nil {
				t.Fatal(err)
			}
			p, err := Hold(real)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			tt.swap(t, dir)
			if err := p.Verify(); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

func aside(t *testing.T, dir string) {
	if err := os.Rename(dir+"/src", dir+"/aside"); err != nil {
		t.Fatal(err)
	}
}

// A link that is there already is not held on to.
func TestHoldOfALink(t *testing.T) {
	dir := t.TempDir()
	link(t, "/etc", dir+"/src")
	if p, err := Hold(dir + "/src/ssl"); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := Hold(dir + "/none"); !errors.Is(err, corral.ErrDir) {
		t.Errorf("%v", err)
	}
}

// What a process finds at a path is compared by what it is.
func TestVerifyIn(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, dir+"/a")
	mkdir(t, dir+"/b")
	p, err := Hold(dir + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.VerifyIn(os.Getpid(), dir+"/a"); err != nil {
		t.Error(err)
	}
	if err := p.VerifyIn(os.Getpid(), dir+"/b"); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("%v", err)
	}
	if err := p.VerifyIn(os.Getpid(), dir+"/c"); err != nil {
		t.Errorf("where nothing can be seen, the path counts: %v", err)
	}
	link(t, dir+"/loop", dir+"/loop")
	if err := p.VerifyIn(os.Getpid(), dir+"/loop"); err == nil || errors.Is(err, corral.ErrDenied) {
		t.Errorf("what cannot be opened in there: %v", err)
	}
	if err := errors.Join(os.Remove(dir+"/a"), os.Rename(dir+"/b", dir+"/a")); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{os.Getpid(), 1 << 30} { // there is no process of that ID
		if err := p.VerifyIn(pid, dir+"/c"); !errors.Is(err, corral.ErrDenied) {
			t.Errorf("another file is at the path: %v", err)
		}
	}
}

// Looking at files leaves none of them open.
func TestNothingStaysOpen(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, dir+"/a")
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := open()
	for range 20 {
		p, err := Hold(dir + "/a")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Verify(), p.VerifyIn(os.Getpid(), dir+"/a"), p.Close()); err != nil {
			t.Error(err)
		}
		systemMountBelow(dir)
		Machine(os.Getenv)
	}
	if after := open(); after > before+10 {
		t.Errorf("%d files are open, %d before", after, before)
	}
}
