from suite import cases_for

test_conformance = cases_for("java")
