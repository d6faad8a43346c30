package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func line(stage, verb, user, agent, resource, subresource string, code int) string {
	return fmt.Sprintf(`{"kind":"Event","stage":%q,"requestURI":"/api/x","verb":%q,"user":{"username":%q},"userAgent":%q,`+
		`"objectRef":{"resource":%q,"subresource":%q},"responseStatus":{"code":%d}}`+"\n",
		stage, verb, user, agent, resource, subresource, code)
}

func mark(name string) string {
	return fmt.Sprintf(`{"stage":"ResponseComplete","requestURI":"%s%s","verb":"get","user":{"username":"admin"}}`+"\n", MarkPath, name)
}

const done, started = "ResponseComplete", "ResponseStarted"

func TestCount(t *testing.T) {
	log := line(done, "get", "a", "ua1", "pods", "", 200) +
		mark("one") +
		line(done, "patch", "a", "ua1", "volumeattachments", "status", 200) +
		line(done, "patch", "a", "ua2", "volumeattachments", "status", 200) +
		line(done, "patch", "a", "ua1", "volumeattachments", "status", 404) +
		line(done, "create", "b", "ua1", "persistentvolumes", "", 201) +
		// One watch, still open, and one that was opened before the first mark and ends here.
		line(started, "watch", "a", "ua1", "volumeattachments", "", 200) +
		line(done, "watch", "b", "ua1", "persistentvolumes", "", 200) +
		// A request that crashed in the server is a request.
		line("Panic", "delete", "b", "ua1", "persistentvolumes", "", 500) +
		mark("two") +
		line(done, "get", "a", "ua1", "pods", "", 200) +
		`{"stage":"ResponseComplete","verb":"get","user":{"userna` // the writer is not done with this line

	for _, test := range []struct {
		name, since, until string
		filter             Filter
		total              int
		rows               []string
	}{
		{"everything", "", "", Filter{}, 8, nil},
		{"between marks", "one", "two", Filter{}, 6, []string{
			"2 a patch volumeattachments/status 200",
			"1 a patch volumeattachments/status 404",
			"1 a watch volumeattachments/ 200",
			"1 b create persistentvolumes/ 201",
			"1 b delete persistentvolumes/ 500",
		}},
		{"from the last mark on", "two", "", Filter{}, 1, nil},
		{"one user", "one", "two", Filter{User: regexp.MustCompile("^b$")}, 2, nil},
		{"one user agent", "one", "two", Filter{UserAgent: regexp.MustCompile("ua2")}, 1, nil},
		{"by user agent", "one", "two", Filter{ByUserAgent: true, User: regexp.MustCompile("^a$")}, 4, []string{
			"1 a ua1 patch volumeattachments/status 200",
			"1 a ua1 patch volumeattachments/status 404",
			"1 a ua1 watch volumeattachments/ 200",
			"1 a ua2 patch volumeattachments/status 200",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Count(strings.NewReader(log), test.since, test.until, test.filter)
			if err != nil {
				t.Fatal(err)
			}
			if got.Total != test.total {
				t.Errorf("total %d, want %d: %+v", got.Total, test.total, got.Counts)
			}
			if rows := describe(got); test.rows != nil && !reflect.DeepEqual(rows, test.rows) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(test.rows, "\n"))
			}
		})
	}
}

func describe(r *Result) []string {
	var out []string
	for _, row := range r.Counts {
		who := row.User
		if row.UserAgent != "" {
			who += " " + row.UserAgent
		}
		out = append(out, fmt.Sprintf("%d %s %s %s/%s %d", row.Count, who, row.Verb, row.Resource, row.Subresource, row.Code))
	}
	return out
}

func TestCountReusedMarkStartsAgain(t *testing.T) {
	log := mark("m") + line(done, "get", "a", "", "pods", "", 200) + mark("m") + line(done, "list", "a", "", "pods", "", 200)
	got, err := Count(strings.NewReader(log), "m", "", Filter{})
	if err != nil || got.Total != 1 || got.Counts[0].Verb != "list" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCountWithoutMark(t *testing.T) {
	for _, marks := range [][2]string{{"no", ""}, {"", "no"}} {
		if _, err := Count(strings.NewReader(mark("yes")), marks[0], marks[1], Filter{}); !errors.Is(err, errNoMark) {
			t.Errorf("%q: got %v", marks, err)
		}
	}
}

func TestCountRefusesWhatIsNoAuditLog(t *testing.T) {
	if _, err := Count(strings.NewReader("hello\n"), "", "", Filter{}); err == nil {
		t.Error("no error")
	}
}

func TestHasMark(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	old := mark("m")
	for _, test := range []struct {
		text string
		want bool
	}{
		{old, false},
		{old + mark("other"), false},
		{old + strings.TrimSuffix(mark("m"), "\n"), false},
		{old + mark("m"), true},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := HasMark(file, int64(len(old)), "m"); err != nil || got != test.want {
			t.Errorf("%q: got %t, %v", test.text, got, err)
		}
	}
}
