package e2b

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// flushes counts how often what is written goes out.
type flushes struct {
	*httptest.ResponseRecorder
	n int
}

func (f *flushes) Flush() { f.n++ }

func TestHeldWriter(t *testing.T) {
	out := &flushes{ResponseRecorder: httptest.NewRecorder()}
	w := &heldWriter{ResponseWriter: out}
	ctx := context.WithValue(t.Context(), heldKey{}, w)
	send := func(text string) {
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		w.Flush()
	}
	send("start")
	holdLast(t.Context()) // of no stream
	send("data")
	if out.n != 2 {
		t.Errorf("two messages went out %d times", out.n)
	}
	holdLast(ctx)
	send("end")
	send("the stream's end")
	if out.n != 2 || out.Body.String() != "startdataendthe stream's end" {
		t.Errorf("after what is last: %d times, %q", out.n, out.Body)
	}
	if err := http.NewResponseController(w).Flush(); err != nil || out.n != 2 {
		t.Errorf("%v, %d times", err, out.n)
	}
}
