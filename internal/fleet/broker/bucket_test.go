package broker

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/fleet/natskv"
	"github.com/corral-exec/corral/internal/fleet/pairing"
	"github.com/corral-exec/corral/internal/test/linktest"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// Gateways at a server of somebody else's share their nodes there, with what
// ServerConfig allows them; nodes can neither read nor write that.
func TestSharedRegistry(t *testing.T) {
	users := [2]nkeys.KeyPair{}
	public := [2]string{}
	for i := range users {
		users[i], public[i] = natstest.NewKey(t)
	}
	node, id := natstest.NewKey(t)
	allowed, err := ServerConfig(public[:], []string{pairing.BucketName}, []User{{id, "n1", "builder"}})
	if err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t, fmt.Sprintf("jetstream { store_dir: %q }\n%s", t.TempDir(), allowed))
	key, gateway := natstest.NewKey(t) // which the two have in common
	var all []*pairing.Registry
	refused := make(chan error, 100)
	for _, user := range users {
		c, err := External{URL: s.URL, Creds: seedFile(t, user), Cert: s.Cert}.Connect(append(fabric.ConnectOptions(nil),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		b, err := pairing.OpenBucket(t.Context(), natskv.Config{Conn: linktest.Over(t, c), Key: key})
		if err != nil {
			t.Fatal(err)
		}
		r, err := pairing.Open(pairing.Options{Bucket: b, GatewayKey: gateway})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, r)
	}
	_, machine := natstest.NewKey(t)
	soon := func(is bool) {
		t.Helper()
		for end := time.Now().Add(3 * time.Second); ; time.Sleep(time.Millisecond) { // sooner than it would look by itself
			if _, ok := all[1].Authorize(machine); ok == is {
				return
			}
			if time.Now().After(end) {
				t.Fatal("one gateway does not learn what another has decided")
			}
		}
	}
	if _, err := all[0].Ask(machine, netip.Addr{}, pairing.Hello{Name: "builder"}); err != nil {
		t.Fatal(err)
	}
	if _, err := all[0].Approve(machine, pairing.Approval{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	soon(true)
	if _, err := all[0].Revoke(machine, "anna"); err != nil {
		t.Fatal(err)
	}
	soon(false)
	if err := all[1].Forget(machine); err != nil {
		t.Fatal(err)
	}

	errs := make(chan error, 100)
	c, err := Dial(s.URL, s.Cert, node, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	const subject, stream = "$KV." + pairing.BucketName + ".head.1", "KV_" + pairing.BucketName
	forbidden := []string{subject, "$JS.API.STREAM.DELETE." + stream, "$JS.API.STREAM.PURGE." + stream, "$JS.API.DIRECT.GET." + stream + "." + subject}
	for _, subject := range forbidden {
		if err := c.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.SubscribeSync("$KV.>"); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for range len(forbidden) + 1 {
		if err := <-errs; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	}
	for len(refused) > 0 {
		t.Errorf("a gateway may not do what it does: %v", <-refused)
	}
}
