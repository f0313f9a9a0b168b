//go:build e2e

package e2b_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/images"
)

// A peer is a sandbox that is spoken to without a client: what a gateway makes of one, or a
// container with E2B's daemon.
type peer struct {
	testing.TB
	url    string
	header map[string]string // of every request
	vars   map[string]string // what later steps need
}

// expand puts what earlier steps found into a text.
func (p *peer) expand(text string) string {
	for name, value := range p.vars {
		text = strings.ReplaceAll(text, "$"+name, value)
	}
	return text
}

// send makes a request, with more of its header as name and value in turns.
func (p *peer) send(method, path string, body []byte, header ...string) *http.Response {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	p.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	for name, value := range p.header {
		req.Header.Set(name, value)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			req.Header.Del(header[i])
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	// What a client does not ask for is not to be packed, and is not to be unpacked for it.
	res, err := (&http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { res.Body.Close() })
	return res
}

func (p *peer) all(r io.Reader) []byte {
	p.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		p.Fatal(err)
	}
	return b
}

// changing are the values that no two runs have in common.
var changing = regexp.MustCompile(`"(pid|modifiedTime|watcherId|message|size)":("(?:[^"\\]|\\.)*"|\d+)`)

// plain is a JSON value with its names in order and without what changes. Of a message that
// there is one counts: the words are each side's own.
func plain(b []byte) string {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Sprintf("%q", b)
	}
	b, _ = json.Marshal(v)
	return changing.ReplaceAllString(string(b), `"$1":…`)
}

// A step is a part of the conversation, and what comes of it.
type step struct {
	name string
	do   func(p *peer) string
}

const (
	process    = "/process.Process/"
	filesystem = "/filesystem.Filesystem/"
)

// rpc is a call with one answer.
func rpc(name, procedure, body string, header ...string) step {
	return step{name, func(p *peer) string { return p.rpc(procedure, body, header...) }}
}

func (p *peer) rpc(procedure, body string, header ...string) string {
	p.Helper()
	res := p.send("POST", procedure, []byte(p.expand(body)), append([]string{"Content-Type", "application/json", "Connect-Protocol-Version", "1"}, header...)...)
	answer := p.all(res.Body)
	var kept struct{ WatcherID string }
	if json.Unmarshal(answer, &kept) == nil && kept.WatcherID != "" {
		p.vars["watcher"] = kept.WatcherID
	}
	return fmt.Sprint(res.StatusCode, " ", plain(answer))
}

// A stream is a call with many answers.
type stream struct {
	p    *peer
	res  *http.Response
	said strings.Builder // all but output
	out  map[string]*strings.Builder
	over bool
}

func envelope(message string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

func (p *peer) open(procedure, body string, header ...string) *stream {
	p.Helper()
	s := &stream{p: p, out: map[string]*strings.Builder{}}
	s.res = p.send("POST", procedure, envelope(p.expand(body)), append([]string{"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1"}, header...)...)
	fmt.Fprint(&s.said, s.res.StatusCode)
	return s
}

// next reads one answer; false: there is none any more.
func (s *stream) next() bool {
	s.p.Helper()
	var head [5]byte
	if _, err := io.ReadFull(s.res.Body, head[:]); err != nil {
		if !s.over {
			fmt.Fprintf(&s.said, " cut: %v", err)
		}
		return false
	}
	message := make([]byte, min(binary.BigEndian.Uint32(head[1:]), 1<<20))
	if n, err := io.ReadFull(s.res.Body, message); err != nil {
		s.p.Fatalf("%s: %v after %q", s.res.Status, err, append(head[:], message[:n]...))
	}
	if head[0]&2 != 0 {
		s.over = true
		fmt.Fprint(&s.said, " over ", plain(message))
		return true
	}
	var event struct {
		Event struct {
			Start *struct{ PID int }
			Data  map[string][]byte
		}
	}
	if err := json.Unmarshal(message, &event); err != nil {
		s.p.Fatalf("%q: %v", message, err)
	}
	switch e := event.Event; {
	case e.Data != nil:
		for name, data := range e.Data {
			if s.out[name] == nil {
				s.out[name] = &strings.Builder{}
			}
			s.out[name].Write(data)
		}
	default:
		if e.Start != nil {
			s.p.vars["pid"] = fmt.Sprint(e.Start.PID)
		}
		fmt.Fprint(&s.said, " ", plain(message))
	}
	return true
}

// until reads on to an output.
func (s *stream) until(stream, text string) {
	s.p.Helper()
	for s.out[stream] == nil || !strings.Contains(s.out[stream].String(), text) {
		if !s.next() {
			s.p.Fatalf("%q never came: %s", text, s.rest())
		}
	}
}

// rest reads to the end.
func (s *stream) rest() string {
	s.p.Helper()
	for s.next() {
	}
	s.res.Body.Close()
	for _, name := range []string{"stdout", "stderr", "pty"} {
		if out := s.out[name]; out != nil {
			fmt.Fprintf(&s.said, " %s %q", name, out)
		}
	}
	return s.said.String()
}

// run starts a command and reads to its end.
func run(name, body string, header ...string) step {
	return step{name, func(p *peer) string { return p.open(process+"Start", body, header...).rest() }}
}

func sh(script string) string {
	b, _ := json.Marshal(script)
	return `{"process":{"cmd":"/bin/sh","args":["-c",` + string(b) + `]}`
}

// files asks for /files.
func files(name, method, query, body string, header ...string) step {
	return step{name, func(p *peer) string {
		if !strings.Contains(query, "username=") {
			query += "&username=user"
		}
		res := p.send(method, "/files?"+query, []byte(body), header...)
		b := p.all(res.Body)
		if res.Header.Get("Content-Encoding") == "gzip" {
			r, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				p.Fatal(err)
			}
			b = p.all(r)
		}
		line := fmt.Sprint(method, " ", res.StatusCode)
		if res.StatusCode >= 400 {
			return line // and the words of each side
		}
		for _, name := range []string{"Content-Encoding", "Content-Range", "Content-Disposition"} {
			if v := res.Header.Get(name); v != "" {
				line += fmt.Sprintf(" %s=%s", name, v)
			}
		}
		return line + " " + plain(b)
	}}
}

func form(parts ...string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(parts); i += 2 {
		f, _ := w.CreateFormFile("file", parts[i])
		io.WriteString(f, parts[i+1])
	}
	w.Close()
	return b.String(), w.FormDataContentType()
}

func packed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

// input is what SendInput takes.
func input(stream, text string) string {
	return fmt.Sprintf(`{"process":{"pid":$pid},"input":{%q:%q}}`, stream, base64.StdEncoding.EncodeToString([]byte(text)))
}

// conversation is what both sides are told.
func conversation() []step {
	one, oneType := form("/home/user/t/form", "by form")
	two, twoType := form("/home/user/t/f1", "first", "/home/user/t/f2", "second")
	return []step{
		rpc("make a directory", filesystem+"MakeDir", `{"path":"/home/user/t"}`),
		rpc("make it again", filesystem+"MakeDir", `{"path":"/home/user/t"}`),
		rpc("make directories", filesystem+"MakeDir", `{"path":"/home/user/t/d/e/f"}`),
		rpc("make a relative directory", filesystem+"MakeDir", `{"path":"t/relative"}`),
		rpc("make no directory", filesystem+"MakeDir", `{"path":""}`),
		rpc("make one where none may be", filesystem+"MakeDir", `{"path":"/proc/none"}`),

		files("write octets", "POST", "path=/home/user/t/a", "text\n", "Content-Type", "application/octet-stream"),
		files("write over it", "POST", "path=/home/user/t/a", "new\n", "Content-Type", "application/octet-stream"),
		files("write nothing", "POST", "path=/home/user/t/empty", "", "Content-Type", "application/octet-stream"),
		files("write to a directory that is not there", "POST", "path=/home/user/t/x/y/z", "deep", "Content-Type", "application/octet-stream"),
		files("write relative", "POST", "path=t/rel", "relative", "Content-Type", "application/octet-stream"),
		files("write packed octets", "POST", "path=/home/user/t/packed", packed("unpacked"), "Content-Type", "application/octet-stream", "Content-Encoding", "gzip"),
		files("write what is not packed", "POST", "path=/home/user/t/bad", "plain", "Content-Type", "application/octet-stream", "Content-Encoding", "gzip"),
		files("write a form", "POST", "path=/home/user/t/form", one, "Content-Type", oneType),
		files("write a form of two", "POST", "", two, "Content-Type", twoType),
		files("write a form of two to one path", "POST", "path=/home/user/t/both", two, "Content-Type", twoType),
		files("write a broken form", "POST", "path=/home/user/t/bad", "no form", "Content-Type", "multipart/form-data; boundary=x"),
		files("write over a directory", "POST", "path=/home/user/t/d", "text", "Content-Type", "application/octet-stream"),
		files("write as nobody that is there", "POST", "path=/home/user/t/u&username=stranger", "text", "Content-Type", "application/octet-stream"),
		files("write with metadata", "POST", "path=/home/user/t/m", "text", "Content-Type", "application/octet-stream", "X-Metadata-Kind", "a plot", "X-METADATA-owner.id", "7", "X-Metadata-Kind", "again", "X-Metadata-Empty", ""),
		rpc("stat with metadata", filesystem+"Stat", `{"path":"/home/user/t/m"}`),
		files("write with a form and metadata", "POST", "path=/home/user/t/form", one, "Content-Type", oneType, "X-Metadata-Kind", "form"),
		files("write over metadata", "POST", "path=/home/user/t/m", "text", "Content-Type", "application/octet-stream", "X-Metadata-Other", "x"),
		rpc("stat without metadata", filesystem+"Stat", `{"path":"/home/user/t/m"}`),
		files("write with metadata that is not ASCII", "POST", "path=/home/user/t/bad", "text", "Content-Type", "application/octet-stream", "X-Metadata-Kind", "\u00fc"),
		files("write with too much metadata", "POST", "path=/home/user/t/bad", "text", "Content-Type", "application/octet-stream", "X-Metadata-Kind", strings.Repeat("x", 5000)),
		files("write with a long name of metadata", "POST", "path=/home/user/t/bad", "text", "Content-Type", "application/octet-stream", "X-Metadata-"+strings.Repeat("k", 247), "x"),
		files("write as user", "POST", "path=u&username=user", "text", "Content-Type", "application/octet-stream"),

		files("read", "GET", "path=/home/user/t/a", ""),
		{"the type of a file", func(p *peer) string {
			return p.send("GET", "/files?path=/home/user/t/a", nil).Header.Get("Content-Type")
		}},
		files("read relative", "GET", "path=t/rel", ""),
		files("read below ~", "GET", "path="+url.QueryEscape("~/t/rel"), ""),
		files("read what was packed", "GET", "path=/home/user/t/packed", ""),
		files("read packed", "GET", "path=/home/user/t/packed", "", "Accept-Encoding", "gzip"),
		files("read nothing", "GET", "path=/home/user/t/empty", ""),
		files("read a part", "GET", "path=/home/user/t/a", "", "Range", "bytes=1-2"),
		files("read the end", "GET", "path=/home/user/t/a", "", "Range", "bytes=-2"),
		files("read behind the end", "GET", "path=/home/user/t/a", "", "Range", "bytes=100-"),
		files("read what is not there", "GET", "path=/home/user/t/none", ""),
		files("read a directory", "GET", "path=/home/user/t", ""),
		files("read no path", "GET", "", ""),
		files("read a device", "GET", "path=/dev/null", ""),
		files("read as nobody that is there", "GET", "path=/home/user/t/a&username=stranger", ""),
		files("remove by HTTP", "DELETE", "path=/home/user/t/a", ""),

		run("link", sh(`cd t && ln -s a link && ln -s d dirlink && ln -s nowhere x/dangling && chmod 640 a`)+`}`),
		rpc("stat", filesystem+"Stat", `{"path":"/home/user/t/a"}`),
		rpc("stat relative", filesystem+"Stat", `{"path":"t/a"}`),
		rpc("stat a directory", filesystem+"Stat", `{"path":"/home/user/t/d"}`),
		rpc("stat a link", filesystem+"Stat", `{"path":"/home/user/t/link"}`),
		rpc("stat a link to a directory", filesystem+"Stat", `{"path":"/home/user/t/dirlink"}`),
		rpc("stat a link to nothing", filesystem+"Stat", `{"path":"/home/user/t/x/dangling"}`),
		rpc("stat what is not there", filesystem+"Stat", `{"path":"/home/user/t/none"}`),
		rpc("list", filesystem+"ListDir", `{"path":"/home/user/t"}`),
		rpc("list without depth", filesystem+"ListDir", `{"path":"/home/user/t/d","depth":0}`),
		rpc("list deep", filesystem+"ListDir", `{"path":"/home/user/t/d","depth":3}`),
		rpc("list a file", filesystem+"ListDir", `{"path":"/home/user/t/a"}`),
		rpc("list what is not there", filesystem+"ListDir", `{"path":"/home/user/t/none"}`),
		rpc("list by a link", filesystem+"ListDir", `{"path":"/home/user/t/dirlink"}`),
		rpc("move", filesystem+"Move", `{"source":"/home/user/t/rel","destination":"/home/user/t/moved"}`),
		rpc("move to a directory that is not there", filesystem+"Move", `{"source":"/home/user/t/moved","destination":"/home/user/t/p/q/moved"}`),
		rpc("move what is not there", filesystem+"Move", `{"source":"/home/user/t/none","destination":"/home/user/t/n"}`),
		rpc("remove", filesystem+"Remove", `{"path":"/home/user/t/p"}`),
		rpc("remove what is not there", filesystem+"Remove", `{"path":"/home/user/t/p"}`),

		run("run", sh(`echo out; echo err >&2; exit 3`)+`}`),
		run("run without output", sh(`:`)+`}`),
		run("run in a directory", `{"process":{"cmd":"/bin/pwd","cwd":"/home/user/t"}}`),
		run("run in none", `{"process":{"cmd":"/bin/pwd","cwd":"/nowhere"}}`),
		run("run with variables", `{"process":{"cmd":"/bin/sh","args":["-c","echo $A $HOME $USER"],"envs":{"A":"b c"}}}`),
		run("run what is not there", `{"process":{"cmd":"/nowhere/program"}}`),
		run("run what PATH has", `{"process":{"cmd":"printf","args":["%s","by PATH"]}}`),
		run("run nothing", `{"process":{"cmd":""}}`),
		run("run what kills itself", sh(`kill -9 $$`)+`}`),
		run("run what ends by SIGTERM", sh(`kill -15 $$`)+`}`),
		run("run as nobody that is there", sh(`id -un`)+`}`, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("stranger:"))),
		run("run for too long", sh(`echo begun; sleep 100`)+`}`, "Connect-Timeout-Ms", "1500"),
		run("run in a terminal", sh(`stty size; echo $TERM; test -t 0 && exit 4`)+`,"pty":{"size":{"cols":91,"rows":13}}}`),
		{"input", func(p *peer) string {
			s := p.open(process+"Start", sh(`cat; exit 5`)+`,"stdin":true}`)
			s.next()
			sent := p.rpc(process+"SendInput", input("stdin", "typed\n"))
			s.until("stdout", "typed")
			return sent + " " + p.rpc(process+"CloseStdin", `{"process":{"pid":$pid}}`) + " " + s.rest()
		}},
		{"input to a tag", func(p *peer) string {
			s := p.open(process+"Start", sh(`read x; echo got $x`)+`,"stdin":true,"tag":"mine"}`)
			s.next()
			return p.rpc(process+"List", `{}`) + " " + p.rpc(process+"SendInput", `{"process":{"tag":"mine"},"input":{"stdin":"eAo="}}`) + " " + s.rest()
		}},
		{"input for what takes none", func(p *peer) string {
			s := p.open(process+"Start", sh(`echo begun; sleep 2`)+`,"stdin":false}`)
			s.until("stdout", "begun")
			return p.rpc(process+"SendInput", input("stdin", "x")) + " " + p.rpc(process+"SendInput", input("pty", "x")) + " " + s.rest()
		}},
		{"a terminal", func(p *peer) string {
			s := p.open(process+"Start", sh(`stty -echo; echo ready; read x; stty size; echo got $x`)+`,"pty":{"size":{"cols":80,"rows":24}}}`)
			s.until("pty", "ready")
			sized := p.rpc(process+"Update", `{"process":{"pid":$pid},"pty":{"size":{"cols":101,"rows":33}}}`)
			return sized + " " + p.rpc(process+"SendInput", input("pty", "line\n")) + " " + s.rest()
		}},
		{"signals", func(p *peer) string {
			said := ""
			for _, signal := range []string{"SIGNAL_SIGTERM", "SIGNAL_SIGKILL"} {
				s := p.open(process+"Start", sh(`echo begun; exec sleep 100`)+`}`)
				s.until("stdout", "begun")
				said += p.rpc(process+"SendSignal", `{"process":{"pid":$pid},"signal":"`+signal+`"}`) + " " + s.rest() + " "
			}
			return said
		}},
		{"a signal that a command takes", func(p *peer) string {
			s := p.open(process+"Start", sh(`trap 'exit 6' TERM; echo begun; while :; do :; done`)+`}`)
			s.until("stdout", "begun")
			return p.rpc(process+"SendSignal", `{"process":{"pid":$pid},"signal":"SIGNAL_SIGTERM"}`) + " " + s.rest()
		}},
		{"connect", func(p *peer) string {
			first := p.open(process+"Start", sh(`echo begun; read x; echo got $x; exit 7`)+`,"stdin":true,"tag":"both"}`)
			first.until("stdout", "begun")
			second := p.open(process+"Connect", `{"process":{"tag":"both"}}`)
			second.next() // the start
			said := p.rpc(process+"SendInput", input("stdin", "x\n"))
			return said + " " + first.rest() + " " + second.rest()
		}},
		{"connect to what has ended", func(p *peer) string { // by the PID of the last one, which exits are kept of for a while
			return p.open(process+"Connect", `{"process":{"pid":$pid}}`).rest()
		}},
		{"connect to nothing", func(p *peer) string {
			return p.open(process+"Connect", `{"process":{"pid":999999}}`).rest() + " " + p.open(process+"Connect", `{"process":{}}`).rest()
		}},
		rpc("signal nothing", process+"SendSignal", `{"process":{"pid":999999},"signal":"SIGNAL_SIGKILL"}`),
		rpc("signal no signal", process+"SendSignal", `{"process":{"pid":999999}}`),
		rpc("input for nothing", process+"SendInput", `{"process":{"tag":"none"},"input":{"stdin":"eA=="}}`),
		rpc("list no processes", process+"List", `{}`),

		{"watch", func(p *peer) string {
			said := p.rpc(filesystem+"CreateWatcher", `{"path":"/home/user/t/d"}`)
			p.open(process+"Start", sh(`echo x >t/d/new`)+`}`).rest()
			time.Sleep(time.Second)
			said += " " + p.rpc(filesystem+"GetWatcherEvents", `{"watcherId":"$watcher"}`)
			said += " " + p.rpc(filesystem+"RemoveWatcher", `{"watcherId":"$watcher"}`)
			return said + " " + p.rpc(filesystem+"GetWatcherEvents", `{"watcherId":"$watcher"}`)
		}},
		rpc("watch a file", filesystem+"CreateWatcher", `{"path":"/home/user/t/a"}`),
		rpc("watch what is not there", filesystem+"CreateWatcher", `{"path":"/home/user/t/none"}`),

		rpc("no JSON", filesystem+"Stat", `{"path":`),
		rpc("an unknown field", filesystem+"Stat", `{"path":"/home/user/t/a","more":1}`),
		rpc("a wrong type", filesystem+"Stat", `{"path":1}`),
		rpc("a wrong content type", filesystem+"Stat", `{}`, "Content-Type", "text/plain"),
		rpc("no such procedure", filesystem+"Fly", `{}`),
		run("a message that is none", `{"process":1}`),
		{"a message without its end", func(p *peer) string {
			res := p.send("POST", process+"Start", []byte{0, 0, 0, 0, 9, '{'}, "Content-Type", "application/connect+json", "Connect-Protocol-Version", "1")
			s := &stream{p: p, res: res}
			return s.rest()
		}},
		{"by GET", func(p *peer) string {
			return fmt.Sprint(p.send("GET", filesystem+"Stat", nil).StatusCode)
		}},
		{"the health", func(p *peer) string {
			res := p.send("GET", "/health", nil)
			return fmt.Sprint(res.StatusCode, " ", string(p.all(res.Body)))
		}},
	}
}

// differences are the steps whose outcome is another with a gateway, with the reason.
var differences = map[string]string{
	"make one where none may be": "a directory that no one can make is not there; it is no fault of the server",
	"write a broken form":        "what a client sends malformed is the client's fault, not the server's",
	"the type of a file":         "a browser saves what a link leads to: a page of a sandbox is not shown under the gateway's name",
	"read a device":              "only files are read: a device or a pipe may never end",
	"remove by HTTP":             "there is one answer for what is not there",
	"by GET":                     "there is one answer for what is not there",
	"no such procedure":          "every error has a body in E2B's form",
	"stat a link to nothing":     "it is said that it is a link, and where it leads",
	"run what is not there":      "what could not be started has no PID: the daemon starts a program of its own first",
	"run nothing":                "no program is named: nothing is started",
	"run in a terminal":          "TERM is set",
	"input for what takes none":  "it is the client's fault, not the server's",
	"a message without its end":  "another version of Connect's library has another code",
}

// A gateway answers as E2B's daemon does.
func TestTranscript(t *testing.T) {
	dir, ok := suite(t)
	if !ok {
		return
	}
	t.Parallel()
	g := newRigWith(t, withoutTLS)
	own, remove := g.peer()
	daemon := &peer{TB: t, url: g.daemon(dir, images.Default), vars: map[string]string{}, header: map[string]string{"Authorization": basicUser}}
	seen := map[string]bool{}
	for _, step := range conversation() {
		if seen[step.name] {
			t.Errorf("two steps are called %q", step.name)
		}
		seen[step.name] = true
		want, got := step.do(daemon), step.do(own)
		why, listed := differences[step.name]
		switch {
		case want != got && !listed:
			t.Errorf("%s:\nE2B's daemon  %s\nthe gateway   %s", step.name, want, got)
		case want == got && listed:
			t.Errorf("%s: there is no difference any more (%s): %s", step.name, why, got)
		}
	}
	for name := range differences {
		if !seen[name] {
			t.Errorf("no step is called %q", name)
		}
	}
	t.Logf("%d steps, of which %d differ", len(seen), len(differences))
	remove()
	g.nothingLeft()
}
