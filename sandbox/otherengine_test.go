package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A listedEngine has containers, which it finds by ID and by name.
type listedEngine struct {
	engine.Engine
	info       engine.Info
	containers []engine.Container
	paused     []string
}

func (e *listedEngine) Info(context.Context) (engine.Info, error) { return e.info, nil }

func (e *listedEngine) List(context.Context, map[string]string) ([]engine.Container, error) {
	return e.containers, nil
}

func (e *listedEngine) Inspect(_ context.Context, ref string) (engine.Container, error) {
	for _, c := range e.containers {
		if c.ID == ref || c.Name == ref {
			return c, nil
		}
	}
	return engine.Container{}, engine.ErrNoContainer
}

func (e *listedEngine) Remove(_ context.Context, ref string) error {
	e.containers = slices.DeleteFunc(e.containers, func(c engine.Container) bool { return c.ID == ref || c.Name == ref })
	return nil
}

func (e *listedEngine) Pause(ctx context.Context, ref string) error {
	_, err := e.Inspect(ctx, ref)
	e.paused = append(e.paused, ref)
	return err
}

func (e *listedEngine) Resume(ctx context.Context, ref string) error {
	_, err := e.Inspect(ctx, ref)
	return err
}

// twoEngines are two of one kind: a sandbox with a private workspace has its container at the first.
func twoEngines(t *testing.T) (state string, rec boxRecord, has, other *listedEngine) {
	t.Helper()
	state = testdir.New(t)
	rec = made(t, state, "main", 1)
	rec.Engine, rec.EngineID, rec.Address, rec.ContainerID = "docker", "one", "unix:///one.sock", "id-1"
	if err := writeJSON(boxPath(state, rec.ID), rec, false); err != nil {
		t.Fatal(err)
	}
	if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: "main", Workspace: "w", Boxes: []string{rec.ID}}, false); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(workspaceDir(state, "w"), 0o700); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{Label: "sandbox", labelState: state, labelBox: rec.ID}
	has = &listedEngine{
		info:       engine.Info{Name: "docker", ID: "one", Address: "unix:///one.sock"},
		containers: []engine.Container{{ID: "id-1", Name: rec.Container, Running: true, Labels: labels}},
	}
	return state, rec, has, &listedEngine{info: engine.Info{Name: "docker", ID: "two", Address: "unix:///two.sock"}}
}

func opened(t *testing.T, state string, eng engine.Engine) *Executor {
	t.Helper()
	e, err := New(Config{Engine: eng, StateDir: state, Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// An engine that does not have a container, since it is another one than the one that made it,
// neither counts it as removed nor as gone.
func TestOtherEngine(t *testing.T) {
	state, rec, has, other := twoEngines(t)
	there := func(what string) {
		t.Helper()
		for _, file := range []string{boxPath(state, rec.ID), workspaceDir(state, "w")} {
			if _, err := os.Stat(file); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errOther) || !errors.Is(err, corral.ErrUnavailable) || corral.Hint(err) == "" || errors.Is(err, wardenexec.ErrGone) {
			t.Errorf("%s: %v", what, err)
		}
		for _, word := range []string{rec.Container, "/one.sock", "/two.sock"} {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not name %s", what, err, word)
			}
		}
		there(what)
	}
	e := opened(t, state, other)
	refused("rm", e.Remove(t.Context()))
	refused("stop", e.Stop(t.Context()))
	_, err := e.Status(t.Context())
	refused("status", err)
	refused("pause", Pause(t.Context(), other, state, "main"))
	if isPaused(state, "main") {
		t.Error("it is noted as paused")
	}
	b, err := e.openBox(rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.connect(t.Context(), false)
	refused("connect", err)
	e.boxes[b.ID] = b
	if n := len(e.left()); n != 1 {
		t.Errorf("%d are left", n)
	}
	if over, err := e.isOver(t.Context(), b); over || err != nil || len(e.left()) > 0 { // else the engine is asked for ever
		t.Errorf("over %v, %v, left %v", over, err, e.left())
	}
	delete(e.boxes, b.ID)
	refused("the end of its life", e.endLife(t.Context(), b, 1))
	if l, err := loadLife(b.dir); err != nil || l.Ended != nil {
		t.Errorf("noted as ended: %+v, %v", l.Ended, err)
	}
	if usable, err := e.usable(t.Context(), b); usable || err != nil {
		t.Errorf("usable %v, %v: want another container", usable, err)
	}
	if err := b.close(); err != nil {
		t.Error(err)
	}
	// A sweep has no part in it, also if nothing refers to the box.
	for _, boxes := range [][]string{{rec.ID}, {}} {
		if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: "main", Workspace: "w", Boxes: boxes}, false); err != nil {
			t.Fatal(err)
		}
		if names, err := Sweep(t.Context(), other, state); err != nil || len(names) > 0 {
			t.Errorf("swept %v, %v", names, err)
		}
		there("sweep")
	}
	// The engine that has it removes it.
	if err := opened(t, state, has).Remove(t.Context()); err != nil || len(has.containers) > 0 {
		t.Errorf("left %v, %v", has.containers, err)
	}
}

// A sandbox that was paused is resumed for a command, whatever engine its container is at: the
// command gets another.
func TestWakeAtOtherEngine(t *testing.T) {
	state, _, has, other := twoEngines(t)
	if err := Pause(t.Context(), has, state, "main"); err != nil {
		t.Fatal(err)
	}
	e := opened(t, state, other)
	if err := e.Resume(t.Context()); !errors.Is(err, errOther) {
		t.Errorf("resume: %v", err)
	}
	if err := Pause(t.Context(), has, state, "main"); err != nil {
		t.Fatal(err)
	}
	if err := e.wake(t.Context()); err != nil || isPaused(state, "main") {
		t.Errorf("%v, paused %v", err, isPaused(state, "main"))
	}
}

// A sandbox whose engine is gone for good can be removed, and what is at an engine that is
// there is removed from it.
func TestAbandon(t *testing.T) {
	state, rec, has, other := twoEngines(t)
	second := made(t, state, "main", 2)
	other.containers = []engine.Container{{ID: "id-2", Name: second.Container, Running: true}}
	if err := opened(t, state, other).Abandon(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(has.containers) != 1 || len(other.containers) != 0 {
		t.Errorf("left %v, %v", has.containers, other.containers)
	}
	for _, file := range []string{boxDir(state, rec.ID), boxDir(state, second.ID), workspaceDir(state, "w")} {
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left is %s, %v", file, err)
		}
	}
	if s, err := Find(state, "main"); err != nil || !s.Gone() {
		t.Errorf("%+v, %v", s, err)
	}
}

// What counts is the container: it may have moved with its engine's data, which changes the
// engine's identity. Without it, and of records of earlier versions, what is known decides.
func TestSameEngine(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(rec *boxRecord, eng *listedEngine)
		ok     bool
	}{
		{"the same", func(*boxRecord, *listedEngine) {}, true},
		{"restarted, and the container is gone", func(_ *boxRecord, eng *listedEngine) { eng.containers = nil }, true},
		{"at another address", func(_ *boxRecord, eng *listedEngine) { eng.containers, eng.info.Address = nil, "tcp://x:1" }, true},
		{"moved", func(_ *boxRecord, eng *listedEngine) { eng.info.ID = "two" }, true},
		{"made anew", func(_ *boxRecord, eng *listedEngine) { eng.info.ID, eng.containers = "two", nil }, false},
		{"another kind", func(_ *boxRecord, eng *listedEngine) { eng.info.Name, eng.containers = "podman", nil }, false},
		{"of an earlier version", func(rec *boxRecord, eng *listedEngine) {
			rec.EngineID, rec.Address, rec.ContainerID, eng.info.ID = "", "", "", "two"
		}, true},
		{"of an earlier version, gone", func(rec *boxRecord, eng *listedEngine) { rec.EngineID, rec.ContainerID, eng.containers = "", "", nil }, true},
		{"of an earlier version, another kind", func(rec *boxRecord, eng *listedEngine) {
			rec.EngineID, eng.info.Name, eng.containers = "", "podman", nil
		}, false},
		{"has no ID", func(_ *boxRecord, eng *listedEngine) { eng.info.ID, eng.containers = "", nil }, true},
	} {
		state, rec, eng, _ := twoEngines(t)
		tt.change(&rec, eng)
		if err := removeBox(t.Context(), eng, state, rec); (err == nil) != tt.ok || len(eng.containers) > 0 {
			t.Errorf("%s: %v, left %v", tt.name, err, eng.containers)
		}
	}
}

// A container that a user renamed is a sandbox's all the same, and another that has its name is
// not.
func TestRenamed(t *testing.T) {
	state, rec, eng, _ := twoEngines(t)
	eng.containers[0].Name = "mine"
	eng.containers = append(eng.containers, engine.Container{ID: "id-9", Name: rec.Container, Running: true})
	e := opened(t, state, eng)
	if s, err := e.Status(t.Context()); err != nil || s.Container.Name != "mine" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := Pause(t.Context(), eng, state, "main"); err != nil || !slices.Equal(eng.paused, []string{"id-1"}) {
		t.Errorf("paused %v, %v", eng.paused, err)
	}
	if err := e.Remove(t.Context()); err != nil || len(eng.containers) != 1 || eng.containers[0].ID != "id-9" {
		t.Errorf("left %v, %v", eng.containers, err)
	}
	// An ephemeral one whose program was killed.
	_, _, eng, _ = twoEngines(t)
	eng.containers[0].Name, eng.containers[0].Labels[labelEphemeral] = "mine", "1"
	copied := engine.Container{ID: "id-9", Name: "image of it", Labels: eng.containers[0].Labels}
	eng.containers = append(eng.containers, copied)
	if names, err := sweepContainers(t.Context(), eng, "/another"); err != nil || !slices.Equal(names, []string{"mine"}) || len(eng.containers) != 1 {
		t.Errorf("swept %v, %v", names, err)
	}
}

// The ID of a container is noted as soon as it is made: a program that is killed then leaves what
// is found by it.
func TestContainerIsNoted(t *testing.T) {
	state, rec, _, _ := twoEngines(t)
	s := &setup{Config: Config{StateDir: state, Log: slog.New(slog.DiscardHandler), Engine: &creatingEngine{}}}
	rec.ContainerID = ""
	if err := s.create(t.Context(), engine.Spec{}, engine.Info{}, &rec); !errors.Is(err, errStarting) {
		t.Fatal(err)
	}
	if now, err := loadBox(state, rec.ID); err != nil || now.ContainerID != "made" || now.Workspace != rec.Workspace || !now.Created.Equal(rec.Created) {
		t.Errorf("%+v, %v", now, err)
	}
	if left, err := filepath.Glob(boxPath(state, rec.ID) + "?*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

type creatingEngine struct{ listedEngine }

var errStarting = errors.New("it does not start")

func (*creatingEngine) Create(context.Context, engine.Spec) (string, error) { return "made", nil }
func (*creatingEngine) Start(context.Context, string) error                 { return errStarting }
