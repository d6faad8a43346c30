package fault

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func request(agent, method, uri string) *http.Request {
	req := httptest.NewRequest(method, uri, nil)
	req.Header.Set("User-Agent", agent)
	return req
}

func rulesOf(t *testing.T, text string) *ruleList {
	t.Helper()
	rules, err := parseRules([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	list := newRuleList()
	if err := list.add(rules, true); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestChoose(t *testing.T) {
	get := request("csi-attacher/v1", "GET", "/api/v1/nodes?limit=5")
	watch := request("csi-attacher/v1", "GET", "/api/v1/nodes?watch=true&resourceVersion=1")
	for _, test := range []struct {
		name, rules string
		req         *http.Request
		want        string // names of what applies to successive requests, - for none
	}{
		{"everything", `{"name":"a","action":"abort"}`, get, "aaa"},
		{"user agent", `{"name":"a","userAgent":"^csi-attacher/","action":"abort"}`, get, "a"},
		{"other user agent", `{"name":"a","userAgent":"^attacher","action":"abort"}`, get, "-"},
		{"method", `{"name":"a","method":"^(PUT|PATCH)$","action":"abort"}`, get, "-"},
		{"query", `{"name":"a","uri":"limit=5","action":"abort"}`, get, "a"},
		{"count", `{"name":"a","count":2,"action":"abort"}`, get, "aa-"},
		{"skip", `{"name":"a","skip":2,"action":"abort"}`, get, "--aa"},
		{"skip and count", `{"name":"a","skip":1,"count":1,"action":"abort"}`, get, "-a-"},
		{"first wins, then the next", `[{"name":"a","count":1,"action":"abort"},{"name":"b","action":"abort"}]`, get, "abb"},
		{"watch actions leave lists alone", `{"name":"a","action":"gone"}`, get, "-"},
		{"watch actions take watches", `{"name":"a","action":"gone"}`, watch, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, got := rulesOf(t, test.rules), ""
			for range test.want {
				if rule := list.choose(test.req); rule != nil {
					got += rule.Name
				} else {
					got += "-"
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestBadRules(t *testing.T) {
	for _, text := range []string{
		``, `null`, `[null]`, `7`, `{`,
		`{"action":"explode"}`,
		`{"action":"status"}`,
		`{"action":"status","code":99}`,
		`{"action":"delay"}`,
		`{"action":"slow-body"}`,
		`{"action":"abort","uri":"("}`,
		`{"action":"abort","count":-1}`,
		`{"action":"abort","url":"/x"}`, // misspelt: would match everything
	} {
		rules, err := parseRules([]byte(text))
		if err == nil && text != `null` {
			err = newRuleList().add(rules, true)
		}
		if err == nil && len(rules) > 0 {
			t.Errorf("%s: accepted", text)
		}
	}
}

func TestABadRuleChangesNothing(t *testing.T) {
	list := rulesOf(t, `{"name":"old","action":"abort"}`)
	if err := list.add([]*Rule{{Action: actionAbort}, {Action: "explode"}}, true); err == nil {
		t.Fatal("accepted")
	}
	if got := list.list(); len(got) != 1 || got[0].Name != "old" {
		t.Errorf("got %+v", got)
	}
}

func TestRemove(t *testing.T) {
	list := rulesOf(t, `[{"name":"a","action":"abort"},{"name":"b","action":"abort"}]`)
	if list.remove(99) {
		t.Error("removed a rule that does not exist")
	}
	if !list.remove(1) || len(list.list()) != 1 || list.list()[0].Name != "b" {
		t.Errorf("got %+v", list.list())
	}
}
