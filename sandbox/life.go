package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A Life is what is noted of a container of a sandbox, from before it is made
// until after it is gone.
type Life struct {
	Box
	Setup *SetupRun   `json:"setup,omitempty"` // nil: no setup command was begun
	Error string      `json:"error,omitempty"` // why no command ever got to it
	Ended *engine.End `json:"ended,omitempty"` // nil: it is not known to have ended
}

// A SetupRun is what came of a setup command.
type SetupRun struct {
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"` // nil: it runs, or was cut short with the program that made the container
	// Exit is how it ended, as a shell user would put it; empty if that is not
	// known.
	Exit   string `json:"exit,omitempty"`
	Failed bool   `json:"failed"`
	Output int64  `json:"output"` // bytes that it wrote; what is kept of them see SetupLog
}

// life is the life.json of a box, beside its box.json. What is only nice to know
// is in it: nothing depends on it.
type life struct {
	Setup  *SetupRun   `json:"setup,omitempty"`
	Error  string      `json:"error,omitempty"`
	Ended  *engine.End `json:"ended,omitempty"`
	Warden uint64      `json:"warden,omitempty"` // which one it has; 0: none that has answered
}

// lifeRecord is a file of the history: a Life, and with which warden.
type lifeRecord struct {
	Life
	Warden uint64 `json:"warden,omitempty"`
}

// of joins a box's life with its record.
func (l life) of(rec boxRecord) lifeRecord {
	return lifeRecord{Life{rec.box(), l.Setup, l.Error, l.Ended}, l.Warden}
}

const (
	lifeFile     = "life.json"
	setupLogFile = "setup.log"
	historyDir   = "history" // in a sandbox's directory: ID.json and ID.log of boxes that are gone

	// maxHistory is of how many containers that are gone a sandbox has a history.
	maxHistory = 8
)

func loadLife(dir string) (life, error) {
	var l life
	err := ignoreMissing(readJSON(filepath.Join(dir, lifeFile), &l))
	return l, err
}

// noteLife changes the life.json of a box. Of several programs that do so at a
// time, one wins.
func noteLife(dir string, change func(*life)) error {
	l, err := loadLife(dir)
	if err != nil {
		l = life{} // it is damaged; a reader of the file is told so
	}
	change(&l)
	// Without the directory the box is gone.
	if err := ignoreMissing(writeJSON(filepath.Join(dir, lifeFile), l, false)); err != nil {
		return fmt.Errorf("cannot note what became of a container: %w", err)
	}
	return nil
}

// endByRemoval is that of a container that is about to be removed while it runs;
// why as in End.
func endByRemoval(why string) *engine.End {
	return &engine.End{At: time.Now().UTC().Truncate(time.Second), Removed: true, Why: why}
}

// noteEnd notes that a container has ended, unless that is noted already.
func noteEnd(dir string, end *engine.End) error {
	return noteLife(dir, func(l *life) {
		if l.Ended == nil {
			l.Ended = end
		}
	})
}

// noteRemoval notes how a container ended that is about to be removed.
func noteRemoval(state string, rec boxRecord, c engine.Container) error {
	switch {
	case rec.Sandbox == "":
		return nil
	case c.Running:
		return noteEnd(boxDir(state, rec.ID), endByRemoval(""))
	}
	return noteEnd(boxDir(state, rec.ID), engine.EndOf(c))
}

// keepLife moves what is noted of a box that is gone to the sandbox's history.
func keepLife(state string, rec boxRecord) error {
	if rec.Sandbox == "" {
		return nil
	}
	dir := filepath.Join(sandboxDir(state, rec.Sandbox), historyDir)
	if _, err := os.Stat(filepath.Dir(dir)); err != nil {
		return ignoreMissing(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the directory of a sandbox's history: %w", err)
	}
	l, err := loadLife(boxDir(state, rec.ID))
	if err != nil {
		l = life{Error: "what became of it is not known: its record is damaged"}
	}
	file := filepath.Join(dir, rec.ID+".json")
	if _, err = os.Stat(file); errors.Is(err, fs.ErrNotExist) { // else it was kept, before anything was gone
		err = writeJSON(file, l.of(rec), false)
	}
	if err == nil {
		err = ignoreMissing(os.Rename(filepath.Join(boxDir(state, rec.ID), setupLogFile), filepath.Join(dir, rec.ID+".log")))
	}
	if err != nil {
		return fmt.Errorf("cannot keep what is known of a container: %w", err)
	}
	over, err := history(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, old := range over[:max(0, len(over)-maxHistory)] {
		for _, suffix := range []string{".json", ".log"} {
			errs = append(errs, ignoreMissing(os.Remove(filepath.Join(dir, old.ID+suffix))))
		}
	}
	return errors.Join(errs...)
}

// history are the lives that are over, the oldest first.
func history(dir string) ([]lifeRecord, error) {
	files, err := glob(dir, "*.json")
	if err != nil {
		return nil, err
	}
	var over []lifeRecord
	for _, file := range files {
		var l lifeRecord
		if err := readJSON(file, &l); errors.Is(err, fs.ErrNotExist) {
			continue // another program made room
		} else if err != nil || l.ID+".json" != filepath.Base(file) {
			l = lifeRecord{Life: Life{Box: Box{ID: strings.TrimSuffix(filepath.Base(file), ".json")}, Error: "its record is damaged"}}
		}
		over = append(over, l)
	}
	return sortLives(over), nil
}

// livesOf are the containers that a sandbox has, and the last that it had, in the
// order in which they were made.
func livesOf(state, name string) ([]lifeRecord, error) {
	ids, err := boxesOf(state, name)
	if err != nil {
		return nil, err
	}
	var lives []lifeRecord
	for _, id := range ids {
		rec, err := loadBox(state, id)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l, err := loadLife(boxDir(state, id))
		if err != nil {
			return nil, err
		}
		lives = append(lives, l.of(rec))
	}
	// A box is in the history before anything of it is gone: read after it, that
	// tells of it as a whole.
	over, err := history(filepath.Join(sandboxDir(state, name), historyDir))
	if err != nil {
		return nil, err
	}
	for _, l := range over {
		lives = slices.DeleteFunc(lives, func(other lifeRecord) bool { return other.ID == l.ID })
	}
	return sortLives(append(lives, over...)), nil
}

func sortLives(lives []lifeRecord) []lifeRecord {
	slices.SortStableFunc(lives, func(a, b lifeRecord) int { return a.Created.Compare(b.Created) })
	return lives
}

// howEnded tells how the container ended that had a warden; empty if that is not
// known.
func (e *Executor) howEnded(warden uint64) string {
	if warden == 0 {
		return ""
	}
	lives, err := livesOf(e.stateDir, e.name)
	if err != nil {
		e.log.Warn("it cannot be told why a sandbox's container ended", "name", e.name, "error", err)
	}
	for _, l := range lives {
		if l.Warden == warden && l.Ended != nil {
			return l.Ended.How()
		}
	}
	return ""
}

// Lives are the containers that a sandbox has, and the last that it had, in the
// order in which they were made. No engine is asked.
func Lives(stateDir, name string) ([]Life, error) {
	if _, err := Find(stateDir, name); err != nil {
		return nil, err
	}
	all, err := livesOf(stateDir, name)
	if err != nil {
		return nil, err
	}
	lives := make([]Life, len(all))
	for i, l := range all {
		lives[i] = l.Life
	}
	return lives, nil
}

// SetupLog is what is kept of the output of a box's setup command: all of it, or
// its beginning and its end with a line in between that says how much is left
// out. It is empty if there was none, and has about 1 MiB at most.
func SetupLog(stateDir, name, id string) ([]byte, error) {
	if !namePattern().MatchString(name) || corral.ValidateID(id) != nil {
		return nil, corral.Errorf(corral.ErrInvalid, "", "%.80q is no container of a sandbox", id)
	}
	for _, file := range []string{
		filepath.Join(boxDir(stateDir, id), setupLogFile),
		filepath.Join(sandboxDir(stateDir, name), historyDir, id+".log"),
	} {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the log of a setup command: %w", err)
		}
		b, err := io.ReadAll(io.LimitReader(f, 2*maxSetupLog+markerRoom))
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("cannot read the log of a setup command: %w", err)
		}
		return b, nil
	}
	return nil, nil
}
