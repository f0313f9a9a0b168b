package fabric

import (
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/test/natstest"
)

// BenchmarkRequest measures the parts of the way of a request to start a
// command, in the order in which they are taken: what none of them does costs
// nothing.
func BenchmarkRequest(b *testing.B) {
	key, _ := natstest.NewKey(b)
	signer, err := NewSigner(key)
	if err != nil {
		b.Fatal(err)
	}
	public, err := nkeys.FromPublicKey(signer.public)
	if err != nil {
		b.Fatal(err)
	}
	cmd := corral.Command{ID: corral.NewID(), Shell: "git status -s", Dir: "/srv/work", Timeout: 30 * time.Minute}
	h := Header{Version: Version, Node: "n1", Boot: corral.NewID(), Life: corral.NewID(), Seq: 1, Epoch: newEpoch(), Op: OpStart, ID: cmd.ID}
	info := corral.Info{ID: cmd.ID, PID: 4711, Host: corral.HostGateway, Dir: cmd.Dir, StartedAt: time.Now()}
	exit := corral.Exit{Reason: corral.ReasonExited, StartedAt: time.Now(), EndedAt: time.Now()}

	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	var body, answer, end []byte
	var messages [][]byte
	for _, part := range []struct {
		name string
		do   func()
	}{
		{"EncodeStart", func() {
			body, err = EncodeStart("main", cmd, &Grant{Reader: 1, Limit: 64 << 10})
			must(err)
		}},
		{"Seal", func() {
			messages, err = signer.Seal(h, body)
			must(err)
		}},
		{"ParseEnvelope", func() {
			_, err := ParseEnvelope(messages[0])
			must(err)
		}},
		{"ParseAndVerify", func() {
			e, err := ParseEnvelope(messages[0])
			must(err)
			must(e.Verify(public))
		}},
		{"DecodeStart", func() {
			_, _, _, err := DecodeStart(body)
			must(err)
		}},
		{"EncodeAnswer", func() { answer = EncodeAnswer(Answer{Boot: h.Boot, Info: &origin.Info{Info: info}}) }},
		{"ParseAnswer", func() {
			_, err := ParseAnswer(answer)
			must(err)
		}},
		{"EncodeEnd", func() {
			end = Output{Flags: FlagEnd, Data: EncodeAnswer(Answer{Boot: h.Boot, Exit: &exit})}.Append(nil)
		}},
		{"ParseEnd", func() {
			o, err := ParseOutput(end)
			must(err)
			_, err = ParseAnswer(o.Data)
			must(err)
		}},
	} {
		part.do() // the next part needs what it makes, also if only that one is measured
		b.Run(part.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				part.do()
			}
		})
	}
}
