package images

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/corral-exec/corral"
)

func TestEnsurePresent(t *testing.T) {
	for _, ref := range []string{"alpine:3", "registry.example.com:5000/team/image@sha256:" + strings.Repeat("a", 64), "corral/somebodys:1"} {
		s, f := fakeStore(t)
		added := f.add(ref, nil, nil)
		img, err := s.Ensure(t.Context(), ref, func(e Event) { t.Errorf("reported %+v", e) })
		if err != nil || img.ID != added.id || img.Ref != ref {
			t.Errorf("%s: %+v, %v", ref, img, err)
		}
		if len(f.calls) != 1 {
			t.Errorf("%s: calls %v", ref, f.calls)
		}
	}
}

func TestEnsureID(t *testing.T) {
	s, f := fakeStore(t)
	added := f.add("alpine:3", nil, nil)
	if img, err := s.Ensure(t.Context(), added.id, nil); err != nil || img.ID != added.id {
		t.Errorf("%+v, %v", img, err)
	}
	if _, err := s.Ensure(t.Context(), "sha256:"+strings.Repeat("f", 64), nil); !errors.Is(err, corral.ErrInvalid) {
		t.Error("an ID that the engine does not have was ensured")
	}
}

func TestEnsureRefused(t *testing.T) {
	for _, ref := range []string{"", "team/UPPER", "corral/sandbox:other", "corral/sandbox", "docker.io/corral/x:1"} {
		s, f := fakeStore(t)
		if _, err := s.Ensure(t.Context(), ref, nil); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%q: error %v, hint %q", ref, err, corral.Hint(err))
		}
		if f.did("pull") > 0 {
			t.Errorf("%q was pulled", ref)
		}
	}
}

func TestEnsurePulls(t *testing.T) {
	s, f := fakeStore(t)
	var events []Event
	img, err := s.Ensure(t.Context(), "alpine:3", func(e Event) { events = append(events, e) })
	if err != nil || img.ID == "" {
		t.Fatalf("%+v, %v", img, err)
	}
	want := Event{Phase: PhasePull, Image: "alpine:3", Item: "aaa", Message: "Downloading", Current: 5, Total: 10}
	if len(events) != 4 || events[2] != want {
		t.Errorf("events %+v, want the third to be %+v", events, want)
	}
	if f.did("pull alpine:3") != 1 {
		t.Errorf("calls %v", f.calls)
	}
}

func TestEnsureBuildsOwn(t *testing.T) {
	r := useRecipe(t)
	s, f := fakeStore(t)
	var phases []Phase
	img, err := s.Ensure(t.Context(), Busybox, func(e Event) { phases = append(phases, e.Phase) })
	if err != nil || img.Stale || img.Recipe != r.digest() || f.did("pull") > 0 {
		t.Fatalf("%+v, %v, calls %v", img, err, f.calls)
	}
	if len(phases) == 0 || phases[len(phases)-1] != PhaseImport {
		t.Errorf("phases %v", phases)
	}
	if again, err := s.Ensure(t.Context(), Busybox, nil); err != nil || again.ID != img.ID || f.did("load") != 1 {
		t.Errorf("ensured again: %+v, %v, calls %v", again, err, f.calls)
	}
	// Built again, it is the same image, and the engine is not bothered with it.
	again, err := s.Build(t.Context(), Busybox, nil)
	if err != nil || again.ID != img.ID || f.did("load") != 1 || f.did("remove") != 0 {
		t.Errorf("%+v, %v, calls %v", again, err, f.calls)
	}
	// Of something else, it is another, and the one before is gone.
	changed := *r
	changed.build = func(context.Context, building, Progress) (rootfs, error) {
		return busyboxRoot([]byte("another binary"), []string{"ls", "sh"}, testTime), nil
	}
	recipes[Busybox] = changed
	other, err := s.Build(t.Context(), Busybox, nil)
	if err != nil || other.ID == img.ID || f.find(img.ID) != nil {
		t.Errorf("%+v, %v", other, err)
	}
	if left, err := os.ReadDir(s.Dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestEnsureStale(t *testing.T) {
	r := useRecipe(t)
	lacking := corral.Errorf(corral.ErrUnavailable, "install it", "nothing to build with")
	stale := map[string]string{LabelImage: Busybox, LabelRecipe: "older"}
	for _, tt := range []struct {
		name    string
		labels  map[string]string
		check   error
		rebuilt bool
		err     error
		warned  bool
	}{
		{"an older recipe is rebuilt", stale, nil, true, nil, false},
		{"an older recipe is used where nothing can be built", stale, lacking, false, nil, true},
		{"somebody else's image of our name is replaced", nil, nil, true, nil, false},
		{"and never used", nil, lacking, false, corral.ErrUnavailable, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, f := fakeStore(t)
			old := f.add(Busybox, nil, tt.labels)
			changed := *r
			changed.check = func() error { return tt.check }
			recipes[Busybox] = changed
			warned := false
			img, err := s.Ensure(t.Context(), Busybox, func(e Event) { warned = warned || e.Warning })
			if !errors.Is(err, tt.err) || warned != tt.warned {
				t.Errorf("error %v, warned %v", err, warned)
			}
			if rebuilt := err == nil && img.ID != old.id; rebuilt != tt.rebuilt {
				t.Errorf("rebuilt %v", rebuilt)
			}
			// What Corral did not build is not Corral's to remove.
			if removed := f.find(old.id) == nil; removed != (tt.rebuilt && tt.labels != nil) {
				t.Errorf("the old image: removed %v", removed)
			}
		})
	}
}

func TestBuildKeepsImageInUse(t *testing.T) {
	useRecipe(t)
	s, f := fakeStore(t)
	f.add(Busybox, nil, map[string]string{LabelImage: Busybox, LabelRecipe: "older"})
	f.remove = func(string) error { return cerrdefs.ErrConflict }
	warning := ""
	if _, err := s.Build(t.Context(), Busybox, func(e Event) {
		if e.Warning {
			warning = e.Message
		}
	}); err != nil || !strings.Contains(warning, "is kept") {
		t.Errorf("%v, warning %q", err, warning)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Stale || !list[1].Stale || len(list[1].Tags) != 0 {
		t.Errorf("list %+v, %v", list, err)
	}
}

func TestBuildRefused(t *testing.T) {
	useRecipe(t)
	s, f := fakeStore(t)
	if _, err := s.Build(t.Context(), "alpine:3", nil); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("somebody's image: %v", err)
	}
	f.arch = "s390x"
	if _, err := s.Build(t.Context(), Busybox, nil); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "s390x") {
		t.Errorf("another architecture: %v", err)
	}
}

// Builds at once take turns, and Ensure does not do again what another did.
func TestEnsureAtOnce(t *testing.T) {
	r := useRecipe(t)
	s, f := fakeStore(t)
	first, waited := make(chan struct{}), make(chan struct{})
	var once sync.Once
	changed := *r
	changed.build = func(ctx context.Context, b building, p Progress) (rootfs, error) {
		once.Do(func() { close(first) })
		<-waited
		return r.build(ctx, b, p)
	}
	recipes[Busybox] = changed
	var wg sync.WaitGroup
	ensure := func(p Progress) {
		if _, err := s.Ensure(t.Context(), Busybox, p); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { ensure(nil) })
	<-first
	wg.Go(func() {
		ensure(func(e Event) {
			if e.Phase == PhaseWait {
				close(waited)
			}
		})
	})
	wg.Wait()
	if n := f.did("load"); n != 1 {
		t.Errorf("%d imports", n)
	}
}

func TestImportFaults(t *testing.T) {
	useRecipe(t)
	reading := errors.New("the disk is broken")
	for _, tt := range []struct {
		name   string
		loaded func(io.Reader) (string, bool)
		build  func(context.Context, building, Progress) (rootfs, error)
		want   string
	}{
		{"refused at once", func(io.Reader) (string, bool) { return "not today", false }, nil, "not today"},
		{"refused midway", func(r io.Reader) (string, bool) {
			io.CopyN(io.Discard, r, 700)
			return `{"errorDetail":{"message":"no space left on device"},"error":"x"}`, true
		}, nil, "no space left on device"},
		{"success before the end", func(io.Reader) (string, bool) { return `{"status":"sha256:1"}`, true }, nil, "the engine took 0 of"},
		{"nonsense", func(r io.Reader) (string, bool) { io.Copy(io.Discard, r); return "<html>", true }, nil, "something else than progress"},
		{"nothing was made", func(r io.Reader) (string, bool) { io.Copy(io.Discard, r); return "", true }, nil, "has another one or none"},
		{"the tree cannot be read", nil, func(context.Context, building, Progress) (rootfs, error) {
			e := fileEntry("file", 0o644, []byte("text"), testTime)
			e.open = func() (io.ReadCloser, error) { return nil, reading }
			return memoryFS{tree{[]entry{e}, testTime}}, nil
		}, "archive /file: the disk is broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := useRecipe(t)
			if tt.build != nil {
				r.build = tt.build
				recipes[Busybox] = *r
			}
			s, f := fakeStore(t)
			f.loaded = tt.loaded
			_, err := s.Build(t.Context(), Busybox, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "cannot import") && tt.name != "nothing was made" {
				t.Errorf("error %v, want …%s…", err, tt.want)
			}
			if len(f.images) > 0 {
				t.Errorf("left %v", f.images)
			}
		})
	}
}

func TestImportCancelled(t *testing.T) {
	s, f := fakeStore(t)
	for when, do := range map[string]func(ctx context.Context, stop func()) error{
		"while it is measured": func(ctx context.Context, stop func()) error {
			_, err := NewArchive(ctx, Busybox, ImageConfig{}, testTime, endless(stop))
			return err
		},
		"while it is sent": func(ctx context.Context, stop func()) error {
			a, err := NewArchive(ctx, Busybox, ImageConfig{}, testTime, large(32<<20))
			if err != nil {
				return err
			}
			return s.load(ctx, Busybox, a, func(e Event) {
				if e.Current > 8<<20 {
					stop()
				}
			})
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if err := do(ctx, cancel); !errors.Is(err, context.Canceled) || len(f.images) > 0 {
			t.Errorf("%s: %v, %v", when, err, f.images)
		}
	}
}

// An image that a person built on one of Corral's own has its labels, too.
func TestDerivedImagesAreKept(t *testing.T) {
	useRecipe(t)
	s, f := fakeStore(t)
	own, err := s.Ensure(t.Context(), Busybox, nil)
	if err != nil {
		t.Fatal(err)
	}
	derived := f.add("mine:1", nil, f.find(own.ID).labels)
	derived.comment = "buildkit.dockerfile.v0"
	if list, err := s.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != own.ID {
		t.Errorf("Corral's own images are %+v, %v", list, err)
	}
	for _, ref := range []string{"mine:1", derived.id} {
		if err := s.Remove(t.Context(), ref); !errors.Is(err, corral.ErrInvalid) || f.find(derived.id) == nil {
			t.Errorf("%s is removed: %v", ref, err)
		}
	}
	if img, err := s.Ensure(t.Context(), "mine:1", nil); err != nil || img.ID != derived.id {
		t.Errorf("%+v, %v", img, err)
	}
	// Neither is it removed where it has taken the name.
	other := f.add(Busybox, nil, map[string]string{LabelImage: Busybox, LabelRecipe: "older"})
	other.comment = "buildkit.dockerfile.v0"
	if img, err := s.Build(t.Context(), Busybox, nil); err != nil || img.ID == other.id || f.find(other.id) == nil {
		t.Errorf("%+v, %v", img, err)
	}
}

// A program that was killed while it read a file of an image leaves a container, by which
// the image is in use.
func TestContainersOfTheKilled(t *testing.T) {
	for what, do := range map[string]func(Store) error{
		"remove": func(s Store) error { return s.Remove(t.Context(), Busybox) },
		"read": func(s Store) error {
			_, err := s.Engine.ReadFile(t.Context(), Busybox, "/none", 1)
			if cerrdefs.IsNotFound(err) {
				err = nil
			}
			return err
		},
	} {
		s, f := fakeStore(t)
		f.add(Busybox, nil, map[string]string{LabelImage: Busybox, LabelRecipe: "any"})
		of := func(id string, age time.Duration, labels map[string]string) container.Summary {
			return container.Summary{ID: id, Created: time.Now().Add(-age).Unix(), Labels: labels}
		}
		f.listed = []container.Summary{
			of("left", time.Hour, map[string]string{labelReader: ""}), of("reads", time.Second, map[string]string{labelReader: ""}), of("others", time.Hour, nil),
		}
		if err := do(s); err != nil || f.did("rm left") != 1 || f.did("rm reads")+f.did("rm others") != 0 {
			t.Errorf("%s: %v, %q", what, err, f.calls)
		}
	}
}

// An engine that answers, and hangs when it is asked for more, does not hold up who asks.
func TestQuestionsAreLimited(t *testing.T) {
	s, f := fakeStore(t)
	for what, ask := range map[string]func(context.Context) error{
		"inspect": func(ctx context.Context) error { _, err := s.Engine.Image(ctx, "mine:1"); return err },
		"list":    func(ctx context.Context) error { _, err := s.Engine.Images(ctx, LabelImage); return err },
		"version": func(ctx context.Context) error { _, _, err := s.Engine.Platform(ctx); return err },
		"remove":  func(ctx context.Context) error { return s.Engine.RemoveImage(ctx, "mine:1") },
	} {
		f.add("mine:1", nil, nil)
		f.unlimited = nil
		if err := ask(t.Context()); err != nil || len(f.unlimited) > 0 {
			t.Errorf("%s: no limit of time for %q, %v", what, f.unlimited, err)
		}
	}
}

func TestRemove(t *testing.T) {
	s, f := fakeStore(t)
	f.add("alpine:3", nil, nil)
	ours := f.add(Busybox, nil, map[string]string{LabelImage: Busybox, LabelRecipe: "any"})
	if err := s.Remove(t.Context(), "alpine:3"); !errors.Is(err, corral.ErrInvalid) || f.did("remove") > 0 {
		t.Errorf("somebody's image: %v", err)
	}
	f.remove = func(string) error { return cerrdefs.ErrConflict }
	if err := s.Remove(t.Context(), ours.id); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(corral.Hint(err), "sandboxes") {
		t.Errorf("in use: %v", err)
	}
	ours.tags = append(ours.tags, "mine:1") // the engine refuses this with the same error
	if err := s.Remove(t.Context(), ours.id); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(corral.Hint(err), "names") {
		t.Errorf("with two names: %v, %s", err, corral.Hint(err))
	}
	ours.tags = ours.tags[:1]
	f.remove = nil
	if err := s.Remove(t.Context(), Busybox); err != nil || f.find(ours.id) != nil {
		t.Errorf("remove: %v", err)
	}
	if err := s.Remove(t.Context(), Busybox); !errors.Is(err, ErrNoImage) {
		t.Errorf("remove again: %v", err)
	}
}
