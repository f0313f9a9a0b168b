package pairing

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/corral-exec/corral"
)

// A gateway that was shown an old list when it started cannot know that. It can change
// nothing, and says so, instead of trying for ever.
func TestOldListAtStart(t *testing.T) {
	c := newCluster(t)
	a, _ := c.gateway()
	pair(t, a, 1, "one")
	js, err := jetstream.New(c.Connect())
	ok(t, err)
	kv, err := js.KeyValue(t.Context(), BucketName)
	ok(t, err)
	key := fmt.Sprint(headPrefix, a.opts.Bucket.number)
	old, err := kv.Get(t.Context(), key)
	ok(t, err)
	_, err = a.Rename("one", "other")
	ok(t, err)
	ok(t, a.Close())
	_, err = kv.Put(t.Context(), key, old.Value())
	ok(t, err)

	b, err := Open(Options{Bucket: c.bucket(), GatewayKey: gateway, code: quickCode})
	ok(t, err)
	done := make(chan error, 1)
	go func() { _, err := b.Rename("one", "third"); done <- err }()
	select {
	case err := <-done:
		wantKind(t, err, corral.ErrDenied, "cannot trust the registry")
	case <-time.After(10 * time.Second):
		t.Fatal("it tries for ever")
	}
	wantAuthorised(t, b, 1)
	wantKind(t, b.Close(), corral.ErrDenied, "cannot trust the registry")
}
