package files

import (
	"errors"
	"io"
)

// A served reader reads r on the goroutine that calls serve. Who writes as another user has
// a thread of its own, and each of its waits would cost two switches between threads: over a
// connection that is one for each 64 KiB, and with whole buffers one for each MiB.
type served struct {
	r   io.Reader
	ask chan []byte
	got chan readResult
}

type readResult struct {
	n   int
	err error
}

// serve calls do with a reader of r, which fills what it is given, and returns when do has.
func serve(r io.Reader, do func(io.Reader) error) error {
	s := &served{r, make(chan []byte), make(chan readResult)}
	done := make(chan error, 1)
	go func() {
		err := errors.New("it was not finished")
		defer func() { close(s.ask); done <- err }() // also after runtime.Goexit
		err = do(s)
	}()
	for b := range s.ask {
		var got readResult
		for got.n < len(b) && got.err == nil { // not by io.ReadFull, for which the end is an error as if r was cut
			var n int
			n, got.err = r.Read(b[got.n:])
			got.n += n
		}
		s.got <- got
	}
	return <-done
}

// Read implements io.Reader.
func (s *served) Read(b []byte) (int, error) {
	s.ask <- b
	got := <-s.got
	return got.n, got.err
}
