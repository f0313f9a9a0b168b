//go:build e2e

package clients_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/internal/test/testdir"
)

// inBrowser is what a page does with the package. It returns what went wrong.
const inBrowser = `(async (url, key, agent) => {
  const wrong = [];
  const is = (what, got, want) => { if (JSON.stringify(got) !== JSON.stringify(want)) wrong.push(what + ": " + JSON.stringify(got)); };
  const fails = async (what, kind, call) => {
    try { await call(); wrong.push(what + " does not fail"); } catch (e) { if (!(e instanceof kind)) wrong.push(what + ": " + e); }
  };
  try {
    const api = await import("/index.js");
    const corral = new api.Corral({ url, key, agent });
    const result = await corral.run("echo out; sleep 0.3; echo err >&2; exit 3");
    is("run", [result.exitCode, result.text], [3, "out\nerr\n"]);

    // Bytes, in order, from any offset on.
    let text = "", last, half = 0;
    for await (const event of corral.exec("seq 1 20000", { id: "page" })) {
      text += event.text;
      last = event;
      if (half === 0 && event.next > 40000) half = event.next;
    }
    is("exec", [text, last.type, last.exitCode], [Array.from({ length: 20000 }, (_, i) => i + 1 + "\n").join(""), "exit", 0]);
    let rest = "";
    for await (const event of (await corral.session("page")).log({ offset: half })) rest += event.text;
    is("log from an offset on", rest === text.slice(half) && half > 0, true);

    const cat = await corral.start("cat", { stdin: true });
    await cat.write("é€😀");
    await cat.closeStdin();
    is("input", (await cat.result()).text, "é€😀");

    const sleep = await corral.start("sleep 60");
    const ends = new AbortController();
    setTimeout(() => ends.abort(new Error("enough")), 50);
    await fails("an abort", Error, () => sleep.wait({ signal: ends.signal }));
    is("a command after an abort", (await sleep.status()).status, "running");
    await sleep.kill();
    is("kill", (await sleep.result()).exitCode, null);

    await fails("another agent", api.DeniedError, () => new api.Corral({ url, key, agent: "other" }).sessions());
    await fails("a wrong key", api.UnauthorizedError ?? api.DeniedError, () => new api.Corral({ url, key: key + "x", agent }).sessions());
    await fails("no such session", api.NotFoundError, () => corral.session("none"));
  } catch (e) {
    wrong.push(String(e.stack ?? e));
  }
  return wrong;
})(%s)`

// The package in a browser, from another origin than the gateway's, which the gateway allows;
// and from one that it does not.
func testBrowser(t *testing.T, program, dist string) {
	pages := httptest.NewServer(http.FileServer(http.Dir(dist)))
	defer pages.Close()
	foreign := httptest.NewServer(http.FileServer(http.Dir(dist)))
	defer foreign.Close()
	writeFile(t, filepath.Join(dist, "index.html"), "<!doctype html><title>page</title>")
	config := filepath.Join(testdir.New(t), "corral.json5")
	writeFile(t, config, `{ gateway: { origins: ["`+pages.URL+`"] } }`)
	g := startGateway(t, program, "--config", config)
	key := key(t, &place{host: g}, client.NewKey{Name: "page", Role: "agent", Agents: []string{"page"}})

	alloc, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath("chromium-headless-shell"), chromedp.NoSandbox)...)
	defer stop()
	ctx, cancel := chromedp.NewContext(alloc)
	defer cancel()
	ctx, late := context.WithTimeout(ctx, patience)
	defer late()
	var args []byte
	for _, v := range []string{"http://" + g.address(), key, "page"} {
		quoted, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		args = append(append(args, quoted...), ", "...)
	}
	in := func(url string) []string {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
			t.Fatal(err)
		}
		wrong, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](fmt.Sprintf(inBrowser, args), chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		return wrong
	}
	for _, wrong := range in(pages.URL) {
		t.Error(wrong)
	}
	if wrong := in(foreign.URL); len(wrong) == 0 {
		t.Error("a page of an origin that is not allowed runs commands")
	}
}
