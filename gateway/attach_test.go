package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/session"
)

func (g *rig) attach(id, query string) *websocket.Conn {
	g.t.Helper()
	conn, _, err := websocket.Dial(g.t.Context(), "ws://localhost/v1/sessions/"+id+"/attach"+query, &websocket.DialOptions{
		HTTPClient: g.unix, Subprotocols: []string{api.AttachProtocol},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return conn
}

func (g *rig) tell(conn *websocket.Conn, kind websocket.MessageType, text string) {
	g.t.Helper()
	if err := conn.Write(g.t.Context(), kind, []byte(text)); err != nil {
		g.t.Fatal(err)
	}
}

// hear returns the next message: output, or a control message.
func (g *rig) hear(conn *websocket.Conn) (string, api.Header, api.Control) {
	g.t.Helper()
	kind, data, err := conn.Read(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	if kind == websocket.MessageText {
		var c api.Control
		if err := json.Unmarshal(data, &c); err != nil {
			g.t.Fatal(err)
		}
		return "", api.Header{}, c
	}
	h, err := api.ParseHeader(data)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(data[api.HeaderLen:]), h, api.Control{}
}

func TestAttach(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("cat", `,"tty":{}`)
	conn := g.attach(id, "")
	g.tell(conn, websocket.MessageBinary, "hello")
	if text, h, _ := g.hear(conn); text != "hello" || h.Stream != corral.Stdout || h.Offset != 0 {
		t.Errorf("%q, %+v", text, h)
	}
	for message, want := range map[string]string{
		`{"type":"resize","rows":24,"cols":80}`:   "",
		`{"type":"resize","rows":24}`:             "invalid",
		`{"type":"signal","signal":"SIGNOTHING"}`: "invalid",
		`{"type":"dance"}`:                        "invalid",
		`{`:                                       "invalid",
	} {
		g.tell(conn, websocket.MessageText, message)
		if want == "" {
			continue
		}
		if _, _, c := g.hear(conn); c.Type != api.ControlError || c.Error == nil || c.Error.Code != want {
			t.Errorf("%s: %+v", message, c)
		}
	}
	second := g.attach(id, "?offset=3")
	if text, h, _ := g.hear(second); text != "lo" || h.Offset != 3 {
		t.Errorf("from an offset: %q, %+v", text, h)
	}
	g.tell(second, websocket.MessageText, `{"type":"signal","signal":"TERM"}`)
	for _, conn := range []*websocket.Conn{conn, second} {
		if _, h, _ := g.hear(conn); h.Stream != api.StreamEnd || h.Offset != 5 {
			t.Errorf("the end of the log: %+v", h)
		}
		_, _, c := g.hear(conn)
		var st session.Status
		if err := json.Unmarshal(c.Status, &st); err != nil || c.Type != api.ControlExit || st.Exit == nil || st.Exit.Signal != corral.SIGTERM {
			t.Errorf("the end: %+v, %v", c, err)
		}
		if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("after the end: %v", err)
		}
	}
}

func TestAttachInput(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("cat", `,"stdin":true`)
	conn := g.attach(id, "")
	g.tell(conn, websocket.MessageBinary, "x")
	g.hear(conn)
	g.tell(conn, websocket.MessageText, `{"type":"eof"}`)
	if _, h, _ := g.hear(conn); h.Stream != api.StreamEnd {
		t.Errorf("%+v", h)
	}
	if _, _, c := g.hear(conn); c.Type != api.ControlExit {
		t.Errorf("%+v", c)
	}

	// A command that reads nothing can still be interrupted.
	deaf := g.start("sleep", `,"stdin":true`)
	conn = g.attach(deaf, "")
	for range 4 {
		g.tell(conn, websocket.MessageBinary, strings.Repeat("x", 100_000))
	}
	g.tell(conn, websocket.MessageText, `{"type":"signal","signal":"KILL"}`)
	for {
		if _, _, c := g.hear(conn); c.Type == api.ControlExit {
			break
		}
	}
	// Without input, that is what is said.
	none := g.start("sleep", "")
	conn = g.attach(none, "")
	g.tell(conn, websocket.MessageBinary, "x")
	if _, _, c := g.hear(conn); c.Type != api.ControlError || c.Error.Code != "stdin-closed" {
		t.Errorf("%+v", c)
	}
	// Too much at once.
	g.tell(conn, websocket.MessageBinary, strings.Repeat("x", api.MaxInput+1))
	for {
		_, _, err := conn.Read(t.Context())
		if err == nil {
			continue
		}
		if websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
			t.Errorf("too much: %v", err)
		}
		break
	}
}

func TestAttachHandshake(t *testing.T) {
	g := newRig(t, nil)
	id := g.start("sleep", "")
	conn, _, err := websocket.Dial(t.Context(), "ws://localhost/v1/sessions/"+id+"/attach", &websocket.DialOptions{HTTPClient: g.unix})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("without the subprotocol: %v", err)
	}
	conn.CloseNow()
	g.do("GET", "/v1/sessions/"+id+"/attach", "", "Upgrade", "websocket").code(400, "invalid")

	ctx, cancel := context.WithCancel(t.Context())
	conn = g.attach(id, "")
	g.stop() // a gateway that stops says so
	if _, h, _ := g.hear(conn); h.Stream != api.StreamPause {
		t.Errorf("%+v", h)
	}
	if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("when the gateway stops: %v", err)
	}
	cancel()
}
