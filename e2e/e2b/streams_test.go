//go:build e2e

package e2b_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/corral-exec/corral/images"
)

// streams are held at a time.
const streams = 1000

// first is the first process of a container that a filter of docker ps finds.
func (g *rig) first(filter string) int {
	g.Helper()
	id := strings.TrimSpace(g.run(nil, "docker", "ps", "--quiet", "--no-trunc", "--filter", filter))
	pid, err := strconv.Atoi(strings.TrimSpace(g.run(nil, "docker", "inspect", "--format", "{{.State.Pid}}", id)))
	g.ok(err)
	return pid
}

// A thousand streams are held at a time, each with a command that says when it ends; and so
// does E2B's daemon, whose memory is printed beside.
func TestStreams(t *testing.T) {
	dir, ok := suite(t)
	if !ok {
		return
	}
	g := newRigWith(t, func(_, gateway map[string]any) {
		withoutTLS(nil, gateway)
	})
	own, remove := g.peer()
	daemon := &peer{TB: t, url: g.daemon(dir, images.Default), vars: map[string]string{}, header: map[string]string{"Authorization": basicUser}}
	envd := g.first("volume=" + g.dir + "/envd")
	warden := g.first("label=corral.state=" + g.state)
	for _, side := range []struct {
		name string
		*peer
		pids []int
	}{{"E2B's daemon", daemon, []int{envd}}, {"a gateway and its warden", own, []int{g.gateway.Process.Pid, warden}}} {
		before := g.rss(side.pids...)
		var all []*stream
		var pids []string // with several processes the daemon does not find one by its tag
		for n := range streams {
			s := side.open(process+"Start", fmt.Sprintf(`{"process":{"cmd":"/bin/sh","args":["-c","read x; echo %d $x; exit 7"]},"stdin":true}`, n))
			if !s.next() {
				t.Fatalf("stream %d: %s", n, s.rest())
			}
			all, pids = append(all, s), append(pids, side.vars["pid"])
		}
		held := g.rss(side.pids...)
		for n, s := range all {
			if sent := side.rpc(process+"SendInput", `{"process":{"pid":`+pids[n]+`},"input":{"stdin":"eAo="}}`); !strings.HasPrefix(sent, "200") {
				t.Fatalf("stream %d: %s", n, sent)
			}
			if said := s.rest(); !strings.Contains(said, `"exitCode":7`) || !strings.HasSuffix(said, fmt.Sprintf("stdout %q", fmt.Sprintf("%d x\n", n))) {
				t.Fatalf("stream %d: %s", n, said)
			}
		}
		t.Logf("%s: %d kB, and %d kB with %d streams: %.1f kB each", side.name, before, held, streams, float64(held-before)/streams)
	}
	remove()
	g.nothingLeft()
}

// basicUser is the header of a client's user called user.
const basicUser = "Basic dXNlcjo="

// peer makes a sandbox of the gateway; remove removes it.
func (g *rig) peer() (own *peer, remove func()) {
	g.Helper()
	own = &peer{TB: g, url: fmt.Sprintf("http://127.0.0.1:%d", g.port), vars: map[string]string{}, header: map[string]string{"X-API-KEY": g.key}}
	var made struct{ SandboxID, EnvdAccessToken string }
	res := own.send("POST", "/v2/sandboxes", []byte(`{"templateID":"base","timeout":600}`), "Content-Type", "application/json")
	if b := own.all(res.Body); res.StatusCode != http.StatusCreated || json.Unmarshal(b, &made) != nil {
		g.Fatalf("%d: %s", res.StatusCode, b)
	}
	own.header = map[string]string{"E2b-Sandbox-Id": made.SandboxID, "E2b-Sandbox-Port": "49983", "X-Access-Token": made.EnvdAccessToken, "Authorization": basicUser}
	return own, func() {
		own.send("DELETE", "/sandboxes/"+made.SandboxID, nil, "X-API-KEY", g.key, "E2b-Sandbox-Id", "", "E2b-Sandbox-Port", "")
	}
}
