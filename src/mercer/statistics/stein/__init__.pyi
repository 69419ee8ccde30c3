from mercer.statistics.stein.test import ksd as ksd, ksd_test as ksd_test
