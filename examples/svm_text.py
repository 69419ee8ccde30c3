"""Which language is a word of? A support vector machine on strings, with a kernel in three lines.

The kernel counts the runs of one, two and three letters that two words share; the machine sees
nothing else of them. Run it with ``python examples/svm_text.py``; it takes a few seconds.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

import mercer

WORDS = {
    "English": """
        ashore bellow birthday breath bridge cloudy daughter earthquake enough father feather
        fellowship freshly furthermore gathering height hollow household knowledge laughter
        lengthy midnight mushroom neighbour northern oatmeal outlaw overthrow pathway playground
        rough sailor screech shadow shepherd shoulder sparrow streetlight swallow thirsty thought
        throughout thunder toothache weather whistle widow withdraw wooden yellow
    """,
    "German": """
        abend apfelbaum aufgabe augenblick bauernhof brücke dämmerung eichhörnchen eisenbahn
        fenster feuerwehr frühling gedächtnis geschichte gewitter glückwunsch handschuh herbst
        himmel hoffnung jahreszeit kartoffel kirsche krankenhaus leuchtturm löwenzahn mädchen
        nachbarschaft pfeffer rathaus regenbogen schatten schlüssel schmetterling schnecke
        schreibtisch schwimmen sehnsucht sprache stachelbeere straßenbahn taschentuch überraschung
        verkehr wanderung wirtschaft wolke zeitung zucker zwiebel
    """,
    "Italian": """
        albero allegria amicizia arancia asciugamano autunno bambino bicchiere biglietto calzolaio
        candela cappello castello cavallo chiave ciliegia coltello coraggio domanda famiglia
        farfalla finestra formaggio giardino giornale grattacielo inverno lavoro lenzuola libreria
        maestro mattina montagna nuvola occhiali ombrello orologio passeggiata pomeriggio ragazza
        rosmarino scarpa sorella specchio spiaggia stazione temporale tovaglia uccello zucchero
    """,
    "Finnish": """
        aamiainen aurinko hiekkaranta huomenta hyttynen ilmapallo järvi jäätelö kaupunki kesäloma
        kirjasto kukkakauppa kynttilä kyyhkynen lääkäri lumihiutale maanantai mansikka metsäpolku
        muurahainen mustikka naapuri nuotio omenapuu opettaja pääskynen perhonen pilvi polkupyörä
        päivänpaiste rautatie ruokapöytä saari sanakirja sateenkaari sienimetsä sohva syntymäpäivä
        syksy tähtitaivas takkatuli talvi tuuli työpöytä ukkonen uutinen vaahtera vesisade
        viikonloppu ystävä
    """,
}


def runs(word: str) -> Counter:
    """Count the runs of one to three letters; the ends of the word count as letters."""
    marked = f"^{word}$"
    return Counter(marked[i : i + k] for k in (1, 2, 3) for i in range(len(marked) - k + 1))


def shared(a: str, b: str) -> float:
    """Return the inner product of the two counts: a kernel, because it is an inner product."""
    other = runs(b)
    return float(sum(n * other[run] for run, n in runs(a).items()))


def main() -> None:
    """Learn from three quarters of the words, judge the machine by the others."""
    words = [(word, language) for language, text in WORDS.items() for word in text.split()]
    random.Random(0).shuffle(words)
    points, languages = [w for w, _ in words], np.array([t for _, t in words])
    cut = 3 * len(points) // 4
    known, new = points[:cut], points[cut:]

    kernel = mercer.FromFunction(shared).normalized()
    print(f"'thunder' and 'thirsty' are alike by {kernel(['thunder'], ['thirsty'])[0, 0]:.2f},")
    print(f"'thunder' and 'schatten'        by {kernel(['thunder'], ['schatten'])[0, 0]:.2f}\n")

    model = mercer.SVC(kernel, C=10.0, probability=True, random_state=0)
    model.fit(known, languages[:cut])
    right = model.predict(new) == languages[cut:]
    print(f"{len(known)} words to learn from, {len(new)} held out")
    print(f"support vectors: {len(model.support_)}, gap {model.solution_.gap:.1e}")
    print(f"right on the held-out words: {right.mean():.0%} (guessing gives 25%)\n")

    print("Where it was wrong:")
    for i in np.flatnonzero(~right):
        print(f"   {new[i]:14}{languages[cut + i]}, not {model.predict([new[i]])[0]}")

    print("\nWords that are in no list, and the probability of each language")
    asked = ["waterfall", "schornstein", "cioccolata", "lentokenttä", "mercer", "piano"]
    print(f"   {'':14}" + "".join(f"{name:>9}" for name in model.classes_))
    for word, row in zip(asked, model.predict_proba(asked), strict=True):
        print(f"   {word:14}" + "".join(f"{p:9.2f}" for p in row))


if __name__ == "__main__":
    main()
