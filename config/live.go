package config

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/corral-exec/corral"
)

// Live is a file that is read again when it has changed. It is looked at when a
// method is called, and not in between. Its methods may be called from any goroutine.
//
// A file with a mistake closes: see [Closed]. So does one that was there and is
// gone, since what it forbade must not come back by its removal. Both are over
// when there is a good file again.
type Live struct {
	path string
	none *Config // while there was no file yet

	mu   sync.Mutex
	was  bool        // there was a file, so that it has to stay
	seen fs.FileInfo // when data was read
	sure bool        // a file that looks as seen has data in it, and is is that
	data []byte
	is   *Config
}

// Open starts to follow a file, which is read now. If required, it has to be
// there; otherwise a missing one is [Default] until it appears. The error is
// that of [Load].
func Open(path string, required bool) (*Live, error) {
	none, err := Parse(path, []byte("{}"))
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(path)
	if err != nil && (required || !errors.Is(err, fs.ErrNotExist)) {
		return nil, corral.Errorf(corral.ErrInvalid, "corral init makes one", "cannot read the configuration: %w", err)
	}
	l := &Live{path: path, none: none, was: err == nil, is: none}
	if c := l.Config(); c.Err != nil {
		return nil, c.Err
	}
	return l, nil
}

// Config is what applies now. It is never nil; its Err says why it is closed.
func (l *Live) Config() *Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !l.was:
		return l.none
	case err != nil:
		return l.close(corral.Errorf(corral.ErrUnavailable, "put it back; a gateway that is started now goes by the defaults",
			"the configuration was there and cannot be found now: %w", err))
	case l.sure && Unchanged(l.seen, info):
		return l.is
	}
	// The file may change while it is read: then it differs from info, and is
	// read again by the next call.
	l.was, l.seen, l.sure = true, info, time.Since(changeTime(info)) > tick
	data, err := read(l.path)
	if err != nil {
		return l.close(err)
	}
	if l.data != nil && bytes.Equal(data, l.data) && l.is.Err == nil {
		return l.is
	}
	c, err := Parse(l.path, data)
	if err != nil {
		return l.close(err)
	}
	l.is, l.data = c, data
	return c
}

// tick is more than the time between two changes that a file system gives the
// same time (2 s on FAT).
const tick = 2500 * time.Millisecond

// close looks again with every call, since what is wrong may be outside of the
// file.
func (l *Live) close(err error) *Config {
	l.sure = false
	if l.is.Err == nil || l.is.Err.Error() != err.Error() {
		l.is = Closed(l.path, err)
	}
	return l.is
}

// Unchanged reports whether a file is as it was, as far as what is known of it tells.
func Unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode() && changeTime(a).Equal(changeTime(b))
}
