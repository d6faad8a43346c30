// Parses expressions, its arguments, as Prometheus does. The names of all metrics that they ask for go to standard output; an expression that Prometheus would refuse, or a selector without the name of a metric, ends it.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

func metrics(text string) ([]string, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, selector := range parser.ExtractSelectors(expr) {
		name := ""
		for _, matcher := range selector {
			if matcher.Name == labels.MetricName && matcher.Type == labels.MatchEqual {
				name = matcher.Value
			}
		}
		if name == "" {
			return nil, fmt.Errorf("a selector without the name of a metric: %v", selector)
		}
		names = append(names, name)
	}
	return names, nil
}

func main() {
	for _, text := range os.Args[1:] {
		names, err := metrics(text)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", text, err)
			os.Exit(1)
		}
		for _, name := range names {
			fmt.Println(name)
		}
	}
}
