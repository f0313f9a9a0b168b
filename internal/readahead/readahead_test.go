package readahead

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
)

func TestNextReturnsWhatArrivedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, w := io.Pipe()
		r := New(src.Read)
		for _, part := range []string{"one ", "two ", "three"} {
			if _, err := io.WriteString(w, part); err != nil {
				t.Fatal(err)
			}
		}
		w.CloseWithError(errors.ErrUnsupported)
		synctest.Wait()
		got, err := r.Next()
		if string(got) != "one two three" || err != nil {
			t.Errorf("Next returned %q, %v", got, err)
		}
		for range 2 {
			if got, err := r.Next(); len(got) > 0 || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("after it Next returned %q, %v", got, err)
			}
		}
		r.Stop()
		r.Wait()
	})
}

func TestAllBytesInOrder(t *testing.T) {
	want := make([]byte, 5*Limit+17)
	for i := range want {
		want[i] = byte(i ^ i>>8 ^ i>>16)
	}
	for name, src := range map[string]io.Reader{
		"plain":        bytes.NewReader(want),
		"data and EOF": iotest.DataErrReader(bytes.NewReader(want)),
		"halves":       iotest.HalfReader(bytes.NewReader(want)),
	} {
		t.Run(name, func(t *testing.T) {
			r := New(src.Read)
			defer r.Stop()
			var got []byte
			for {
				data, err := r.Next()
				if got = append(got, data...); err != nil {
					if !errors.Is(err, io.EOF) {
						t.Error(err)
					}
					break
				}
				if len(data) == 0 || len(data) > Limit {
					t.Fatalf("%d bytes", len(data))
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got %d bytes, of %d, and not the same", len(got), len(want))
			}
		})
	}
}

func TestReadsUpToItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := 0
		r := New(func(p []byte) (int, error) {
			n := min(len(p), 1000)
			read += n
			return n, nil
		})
		synctest.Wait()
		if read != Limit {
			t.Errorf("read %d bytes that nobody takes, for at most %d", read, Limit)
		}
		if got, err := r.Next(); len(got) != Limit || err != nil {
			t.Errorf("Next returned %d bytes, %v", len(got), err)
		}
		synctest.Wait()
		if read != 2*Limit {
			t.Errorf("read %d bytes after the first half was taken", read)
		}
		if r.Stop() {
			t.Error("Stop says that it reads, at its limit")
		}
		r.Wait()
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, w := io.Pipe()
		r := New(src.Read)
		took := make(chan error)
		go func() {
			data, err := r.Next()
			if len(data) > 0 {
				err = errors.New("bytes after Stop")
			}
			took <- err
		}()
		synctest.Wait()
		if !r.Stop() {
			t.Error("Stop says that no read is under way")
		}
		if err := <-took; err != nil {
			t.Errorf("Next, which was waiting: %v", err)
		}
		if _, err := io.WriteString(w, "the last read"); err != nil {
			t.Fatal(err)
		}
		r.Wait()
		if data, err := r.Next(); len(data) > 0 || err != nil {
			t.Errorf("after Stop, Next returned %q, %v", data, err)
		}
	})
}

// However many there are, together they hold not much more than allSpare.
func TestSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = allSpare/Limit + 50
		read := 0
		var mu sync.Mutex
		var all []*Reader
		for range n {
			all = append(all, New(func(p []byte) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				read += len(p)
				return len(p), nil
			}))
		}
		synctest.Wait()
		if most := allSpare/2 + n*pieceSize; read > most || read < allSpare/2 {
			t.Errorf("%d of them hold %d bytes, more than %d or less than %d", n, read, most, allSpare/2)
		}
		for i, r := range all { // also one to which nothing was lent goes on
			for range 3 {
				if data, err := r.Next(); len(data) == 0 || err != nil {
					t.Fatalf("the %dth: %d bytes, %v", i, len(data), err)
				}
				synctest.Wait()
			}
		}
		for _, r := range all {
			r.Stop()
			r.Stop()
			r.Wait()
		}
		if got := spare.Load(); got != 0 {
			t.Errorf("%d bytes are still lent", got)
		}
	})
}
