//go:build e2e

package mcp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"testing"
)

// The conformance suite, and the next version of it, which has the scenarios of
// protocol version 2026-07-28.
const (
	suite     = ".bin/conformance"
	nextSuite = "conformance-next/dist/index.js"
)

// applicable are the scenarios of the conformance suite that are about what our
// server has. Those in standIns call a tool that the suite wants a server to
// have for it; see there.
var applicable = []string{
	"server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress",
	"server-sse-multiple-streams", "dns-rebinding-protection",
}

// notApplicable are the scenarios about what our server does not have, and why.
var notApplicable = map[string]string{
	"tools-call-image":              "commands have no pictures",
	"tools-call-audio":              "commands have no sound",
	"tools-call-embedded-resource":  "there are no resources",
	"tools-call-mixed-content":      "there are no pictures and no resources",
	"tools-call-with-logging":       "no log messages are sent to clients",
	"tools-call-sampling":           "the client's model is not used",
	"tools-call-elicitation":        "the client's user is not asked",
	"elicitation-sep1034-defaults":  "the client's user is not asked",
	"elicitation-sep1330-enums":     "the client's user is not asked",
	"logging-set-level":             "no log messages are sent to clients",
	"server-sse-polling":            "no stream is closed in the middle of a call; and the suite asks as version 2025-03-26, for which streams have no first event to resume from (package tool/mcp tests that with 2025-11-25)",
	"completion-complete":           "there are no prompts and no resources whose arguments could be completed",
	"json-schema-2020-12":           "no schema of ours has $defs",
	"resources-list":                "there are no resources",
	"resources-read-text":           "there are no resources",
	"resources-read-binary":         "there are no resources",
	"resources-templates-read":      "there are no resources",
	"resources-subscribe":           "there are no resources",
	"resources-unsubscribe":         "there are no resources",
	"prompts-list":                  "there are no prompts",
	"prompts-get-simple":            "there are no prompts",
	"prompts-get-with-args":         "there are no prompts",
	"prompts-get-embedded-resource": "there are no prompts",
	"prompts-get-with-image":        "there are no prompts",
}

// standIns are calls of exec that do what the suite's test tools are to do. Only
// the name and the arguments of the call are changed on the way to our handler.
var standIns = map[string]map[string]any{
	"test_simple_text":        {"command": "echo This is a simple text response for testing."},
	"test_error_handling":     {"command": ""},
	"test_tool_with_progress": {"command": "echo working; sleep 1"},
}

func standIn(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var message map[string]any
		if json.Unmarshal(body, &message) == nil && message["method"] == "tools/call" {
			params, _ := message["params"].(map[string]any)
			name, _ := params["name"].(string)
			if args := standIns[name]; args != nil {
				params["name"], params["arguments"] = "exec", args
				if r.Header.Get("Mcp-Name") != "" { // says the same
					r.Header.Set("Mcp-Name", "exec")
				}
			}
			if body, err = json.Marshal(message); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		h.ServeHTTP(w, r)
	})
}

// A scenario of which nothing was checked is not one that passed.
var allPassed = regexp.MustCompile(`Passed: ([1-9]\d*)/[1-9]\d*, 0 failed, 0 warnings`)

func TestConformance(t *testing.T) {
	url := serveHTTP(t, standIn)
	for _, scenario := range applicable {
		t.Run(scenario, func(t *testing.T) {
			conform(t, suite, "--url", url, "--scenario", scenario)
		})
	}
}

// applicableNext are those of 2026-07-28. Of its other scenarios, those that
// the suite had before do not apply for the same reasons; server-stateless,
// input-required-* and http-custom-header-* want tools that ask the client for
// something, send log messages or mark parameters for headers.
var applicableNext = []string{
	"tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress",
	"server-sse-multiple-streams", "dns-rebinding-protection", "caching", "http-header-validation",
}

func TestConformanceNext(t *testing.T) {
	url := serveHTTP(t, standIn)
	for _, scenario := range applicableNext {
		t.Run(scenario, func(t *testing.T) {
			conform(t, nextSuite, "--url", url, "--spec-version", "2026-07-28", "--scenario", scenario)
		})
	}
}

func conform(t *testing.T, suite string, args ...string) {
	t.Helper()
	out, err := run(t, suite, append([]string{"server"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if !allPassed.MatchString(out) {
		t.Error(out)
	}
}

// A scenario that a new version of the suite brings has to be looked at.
func TestConformanceIsComplete(t *testing.T) {
	out, err := run(t, suite, "list", "--server")
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Clone(applicable)
	for name := range notApplicable {
		known = append(known, name)
	}
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^\s*- ([\w-]+)`).FindAllStringSubmatch(out, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(known)
	slices.Sort(listed)
	if !slices.Equal(known, listed) {
		t.Errorf("the suite has %q, of which we know %q", listed, known)
	}
}
