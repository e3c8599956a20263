"""English stop words, which a search ignores: data, not code."""

from __future__ import annotations

from typing import Final

STOP_WORD_LIST: Final = """
    a about all also am an and any anyone are as at be because been before being both but by can
    cannot cant could did didnt do does doesnt doing done dont down each else even ever every for
    from gave get gets getting give go goes going gonna gone got had has hasnt have havent having he
    hello hello help helping her here hers hey hi him his how i id if ill im in instead into is isnt
    it its itself ive just kind kindly know let lets like lot make makes making many may maybe me
    might mine more most much must my myself need needs never new no not now of off oh ok okay on
    once one only or other our ours out over own please quite rather really right she should so some
    somebody someone something somewhere sort still such sure take tell than thank thanks that thats
    the their them then there theres these they theyre thing things think this those to too tool
    tools up us use used using very via want wanted wants was way we well were what whatever whats
    when where whether which while who whom whose why will with without wont would yes yet you your
    yours
"""
